import react from '@vitejs/plugin-react';
import { defaultClientConditions } from 'vite';
import { defineConfig } from 'vitest/config';

/** Where `npm run dev` finds the API. */
const server = process.env.TURNBUCKLE_URL ?? 'http://127.0.0.1:7777';

export default defineConfig({
  plugins: [react()],
  resolve: {
    // The client is part of this repository and is read as it is written.
    conditions: ['turnbuckle-source', ...defaultClientConditions],
    dedupe: ['openapi-fetch'],
  },
  ssr: { resolve: { conditions: ['turnbuckle-source', ...defaultClientConditions] } },
  build: {
    target: 'es2023',
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: { '/v1': server, '/openapi.json': server },
  },
  test: {
    environment: 'happy-dom',
    setupFiles: ['test/setup.ts'],
    include: ['src/**/*.test.{ts,tsx}', 'test/**/*.test.{ts,tsx}'],
    restoreMocks: true,
  },
});

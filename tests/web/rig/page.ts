/** While one works on the page: `TURNBUCKLE_PAGE=../../web/dist` puts it in the place of the one in the binary. */

import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { BrowserContext } from '@playwright/test';

const folder = process.env.TURNBUCKLE_PAGE;

export async function replacePage(context: BrowserContext): Promise<void> {
  if (folder === undefined || folder === '') return;
  const root = resolve(folder);
  await context.route(
    (url) => !/^\/(v1|docs|openapi\.json|healthz|readyz)/.test(url.pathname),
    async (route) => {
      const file = join(root, new URL(route.request().url()).pathname);
      const isFile = file.startsWith(join(root, 'assets')) || (file !== root && file !== `${root}/` && existsSync(file));
      await route.fulfill({ path: isFile ? file : join(root, 'index.html') });
    },
  );
}

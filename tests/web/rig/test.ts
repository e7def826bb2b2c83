/** A test has a server of its own and a person at the page. Nothing may go wrong in the page's console. */

import { test as base, expect, type Page } from '@playwright/test';
import { Chat } from './chat.ts';
import { replacePage } from './page.ts';
import { Server } from './server.ts';

interface Options {
  /** The pause after each word of the rehearsal, in milliseconds. */
  readonly pace: number;
  /** What the server's `turnbuckle.toml` says. */
  readonly config: string;
  /** What the console may complain about in this test. */
  readonly expected: RegExp | null;
}

interface Fixtures {
  readonly server: Server;
  readonly chat: Chat;
  /** Another tab of the same browser. */
  readonly otherTab: () => Promise<Chat>;
}

export const test = base.extend<Options & Fixtures>({
  pace: [1, { option: true }],
  config: ['', { option: true }],
  expected: [null, { option: true }],
  server: async ({ pace, config }, use, info) => {
    const server = await Server.start({ pace, config });
    await use(server);
    if (info.status !== info.expectedStatus) await info.attach('server', { body: server.log.join('') });
    await server.remove();
  },
  context: async ({ context }, use) => {
    await replacePage(context);
    await use(context);
  },
  chat: async ({ page, server, expected }, use) => {
    const complaints = listen(page, expected);
    const chat = new Chat(page);
    await chat.open(server.url);
    await use(chat);
    expect(complaints, 'what the console of the page says').toEqual([]);
  },
  otherTab: async ({ context, expected }, use) => {
    const complaints: string[][] = [];
    await use(async () => {
      const page = await context.newPage();
      complaints.push(listen(page, expected));
      return new Chat(page);
    });
    expect(complaints.flat(), 'what the console of another tab says').toEqual([]);
  },
});

export { expect };

function listen(page: Page, expected: RegExp | null): string[] {
  const complaints: string[] = [];
  const note = (text: string): void => {
    if (expected?.test(text) !== true) complaints.push(text);
  };
  page.on('pageerror', (error) => note(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') note(message.text());
  });
  return complaints;
}

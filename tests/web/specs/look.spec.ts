/** How it looks and reads: no state of the page has an accessibility defect, light or dark. `LOOK=folder` keeps pictures. */

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Page } from '@playwright/test';
import type { AxeResults } from 'axe-core';
import { expect, test } from '../rig/test.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const folder = process.env.LOOK;

for (const colorScheme of ['light', 'dark'] as const) {
  for (const [device, viewport] of [
    ['desk', { width: 1280, height: 860 }],
    ['phone', { width: 390, height: 844 }],
  ] as const) {
    test.describe(`${colorScheme}, ${device}`, () => {
      test.use({ colorScheme, viewport, expected: /Failed to load resource|net::ERR_/ });

      test('every state is in order', async ({ chat, page, server }) => {
        const look = (state: string) => inspect(page, `${state}-${colorScheme}-${device}`);
        await look('new');

        await chat.ask('Which deliveries are late?');
        await chat.session();
        await chat.done();
        await look('answer');
        await chat.tool(/^Find threads/).click();
        await expect(chat.last).toContainText('Asked with');
        await chat.tool(/^Find threads/).scrollIntoViewIfNeeded();
        await look('unfolded');

        await chat.ask('Make a plan for today');
        await expect(chat.last).toContainText('Where the plan stands:');
        await chat.done();
        await look('plan');

        await page.keyboard.press('Control+Shift+O');
        await expect(page.getByRole('heading', { name: 'What needs doing at the desk?' })).toBeVisible();
        await chat.ask('Reply to the newest thread');
        await expect(chat.cards).toHaveCount(1);
        await look('card');
        const body = chat.cards.getByLabel('Body');
        await body.fill((await body.inputValue()).replace('writing to us', 'turning to us'));
        await chat.cards.getByRole('button', { name: 'Reject…' }).click();
        await look('amending');
        await chat.cards.getByRole('button', { name: 'Back' }).click();
        await server.kill();
        await expect(page.getByText('The connection broke')).toBeVisible();
        await look('broken');
      });
    });
  }
}

async function inspect(page: Page, name: string): Promise<void> {
  if (folder !== undefined) await page.screenshot({ path: join(folder, `${name}.png`), animations: 'disabled' });
  await page.evaluate(axe);
  const found = await page.evaluate<AxeResults>('axe.run({ resultTypes: ["violations"] })');
  const defects = found.violations.map(({ id, help, nodes }) => ({ id, help, at: nodes.map((node) => node.html.slice(0, 160)) }));
  expect(defects, name).toEqual([]);
}

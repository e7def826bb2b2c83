import type { Page } from '@playwright/test';
import { expect, test } from '../rig/test.ts';

test.use({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });

test('a phone has all of it, and nothing is wider than it', async ({ chat, page }) => {
  expect(await overflow(page)).toBe(0);
  await chat.ask('Which deliveries are late?');
  await chat.session();
  await chat.done();
  expect(await overflow(page)).toBe(0);
  await chat.tool(/^Find threads/).tap();
  await expect(chat.last).toContainText('Asked with');
  expect(await overflow(page)).toBe(0);

  await expect(chat.list).toBeHidden();
  await page.getByRole('button', { name: 'List of chats' }).tap();
  await expect(chat.list).toBeVisible();
  await chat.list.getByRole('button', { name: /^New chat/ }).tap();
  await expect(chat.list).toBeHidden();

  await chat.ask('Reply to the newest thread');
  await expect(chat.cards).toHaveCount(1);
  expect(await overflow(page)).toBe(0);
  const approve = chat.cards.getByRole('button', { name: 'Approve', exact: true });
  await approve.scrollIntoViewIfNeeded();
  const box = await approve.boundingBox();
  expect(box?.height, 'high enough for a finger').toBeGreaterThanOrEqual(36);
  await approve.tap();
  await expect(chat.last).toContainText('was approved and sent to');
});

async function overflow(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

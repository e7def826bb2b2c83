import { expect, test } from '../rig/test.ts';

test('a person asks, and sees tools at work', async ({ chat, page }) => {
  await expect(page.getByRole('note')).toContainText('Rehearsal. No model answers');
  await chat.ask('Which deliveries are late?');
  await chat.session();
  await expect(chat.last).toContainText('Which deliveries are late?');
  await chat.done();

  // Each tool is one folded line with what came of it.
  await expect(chat.tool(/^Find threads/)).toHaveAttribute('aria-expanded', 'false');
  await expect(chat.tool(/^Find orders/)).toBeVisible();
  await expect(chat.tool(/^Get thread/)).toBeVisible();
  await expect(chat.last).toContainText('Open threads that match:');
  await expect(chat.last).toContainText('Orders under way:');

  // Unfolded it shows what was asked and given.
  await chat.tool(/^Find threads/).click();
  await expect(chat.tool(/^Find threads/)).toHaveAttribute('aria-expanded', 'true');
  await expect(chat.last).toContainText('Asked with');
  await expect(chat.last).toContainText('shipping delay');
  await chat.tool(/^Find threads/).click();
  await expect(chat.last).not.toContainText('Asked with');

  // The chat has its name, here and in the list.
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Which deliveries are late?');
  await expect(chat.list.getByRole('link', { name: /^Which deliveries are late\?/ })).toHaveAttribute('aria-current', 'page');
  await expect(page).toHaveTitle('Which deliveries are late? · Turnbuckle');

  // What might be said next is a click away.
  const next = page.getByRole('group', { name: 'What you might say next' }).getByRole('button').first();
  await expect(next).toHaveText(/^Reply to thread \d+$/);
  await next.click();
  await expect(chat.card(/Reply/)).toBeVisible();
});

test('the samples of a new chat begin one', async ({ chat, page }) => {
  await page.getByRole('button', { name: /^Make a plan for today/ }).click();
  await chat.session();
  await chat.done();
  await expect(chat.last).toContainText('Where the plan stands:');
  await expect(page.getByText('See which tasks are due').first()).toBeVisible();
});

test('what was streamed is what is stored', async ({ chat, page }) => {
  await chat.ask('Which deliveries are late?');
  await chat.session();
  await chat.done();
  const streamed = await chat.shown();
  await page.reload();
  await expect(chat.last).toContainText('Orders under way:');
  expect(await chat.shown()).toBe(streamed);
});

import { expect, test } from '../rig/test.ts';

test.use({ pace: 200 });

test('a turn is stopped, and what was done is kept', async ({ chat, page }) => {
  await chat.ask('Which deliveries are late?');
  await expect(chat.last).toContainText('Open threads that match');
  await chat.stopButton.click();
  await expect(chat.last).toContainText('Stopped');
  await chat.done();
  const shown = await chat.shown();
  expect(shown).toContain('Open threads that match');
  expect(shown).not.toContain('Orders under way:');
  await page.reload();
  await expect(chat.last).toContainText('Stopped');
  expect(await chat.shown()).toBe(shown);

  await chat.last.getByRole('button', { name: 'Try again' }).click();
  await expect(chat.turns).toHaveCount(2);
  await expect(chat.last).toHaveAttribute('aria-busy', 'true');
  await page.keyboard.press('Escape');
  await expect(chat.last).toContainText('Stopped');
});

test('a message is queued behind the turn that runs', async ({ chat, page }) => {
  await chat.ask('Which deliveries are late?');
  await expect(chat.last).toHaveAttribute('aria-busy', 'true');
  await chat.ask('Who works in billing?');
  await expect(chat.log).toContainText('Queued');
  await expect(chat.turns).toHaveCount(1);

  // It is queued on the server, not in the page.
  await page.reload();
  await expect(chat.log).toContainText('Queued');
  await expect(chat.turns).toHaveCount(2, { timeout: 60_000 });
  await expect(chat.turns.first()).toContainText('Orders under way:');
  await expect(chat.last).toContainText('Victor Lang');
  await expect(chat.log).not.toContainText('Queued');
});

test('a message steers the turn that runs', async ({ chat, page }) => {
  await chat.ask('Which deliveries are late?');
  await expect(chat.last).toHaveAttribute('aria-busy', 'true');
  await chat.field.fill('Who works in billing?');
  await chat.field.press('Control+Enter');
  await expect(chat.log).not.toContainText('Enters at the next step');
  await chat.done();
  // It is part of the turn that ran, and the turn answered after it.
  await expect(chat.turns).toHaveCount(1);
  await expect(chat.last.locator('[data-steering]')).toHaveText('Who works in billing?');
  await expect(chat.last.locator('[data-steering] ~ [data-markdown]')).not.toHaveCount(0);
  const shown = await chat.shown();
  await page.reload();
  await expect(chat.last.locator('[data-steering]')).toBeVisible();
  expect(await chat.shown()).toBe(shown);
});

test.describe('a long turn', () => {
  test.use({ pace: 400 });

  test('a queued message can be written while another runs, with the mouse', async ({ chat, page }) => {
    await chat.ask('Which deliveries are late?');
    await expect(chat.last).toHaveAttribute('aria-busy', 'true');
    await chat.field.fill('Who works in billing?');
    await page.getByRole('button', { name: 'Queue' }).click();
    await expect(chat.field).toHaveValue('');
    await expect(chat.log).toContainText('Queued');
    // Stopping ends the turn that runs; the queued one takes its place.
    await chat.stopButton.click();
    await expect(chat.turns).toHaveCount(2);
    await expect(chat.turns.first()).toContainText('Stopped');
    await expect(chat.last).toContainText('Victor Lang');
  });
});

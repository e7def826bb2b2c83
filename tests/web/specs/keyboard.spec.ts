import { expect, test } from '../rig/test.ts';

test('everything can be done without a mouse', async ({ chat, page }) => {
  const { keyboard } = page;
  await expect(chat.field).toBeFocused();
  await keyboard.type('Reply to the newest thread');
  await keyboard.press('Enter');
  await expect(chat.cards).toHaveCount(1);

  // From the field to what waits, through its fields, and yes.
  await keyboard.press('Control+Shift+A');
  await expect(chat.cards.getByRole('heading')).toBeFocused();
  for (let i = 0; i < 12 && !(await hasFocus(chat.cards.getByLabel('Body'))); i += 1) await keyboard.press('Tab');
  await expect(chat.cards.getByLabel('Body')).toBeFocused();
  await keyboard.press('Control+A');
  await keyboard.type('Typed without a mouse.');
  await keyboard.press('Control+Enter');
  await expect(chat.last).toContainText('as you changed it: “Typed without a mouse.”');
  await chat.done();
  await expect(chat.field, 'the person can go on').toBeFocused();

  await keyboard.press('?');
  await expect(chat.field).toHaveValue('?');
  await keyboard.press('Backspace');

  await keyboard.press('Control+Shift+O');
  await expect(page.getByRole('heading', { name: 'What needs doing at the desk?' })).toBeVisible();
  await keyboard.type('Who works in billing?');
  await keyboard.press('Enter');
  await expect(chat.last).toContainText('Victor Lang');
  await chat.done();

  await keyboard.press('Alt+ArrowDown');
  await expect(chat.last).toContainText('Typed without a mouse.');
  await keyboard.press('Alt+ArrowUp');
  await expect(chat.last).toContainText('Victor Lang');

  await keyboard.press('Control+K');
  await keyboard.type('newest');
  await expect(chat.list.getByRole('link')).toHaveCount(1);
  await keyboard.press('Tab');
  for (let i = 0; i < 4 && !(await hasFocus(chat.list.getByRole('link'))); i += 1) await keyboard.press('Tab');
  await keyboard.press('Enter');
  await expect(chat.last).toContainText('Typed without a mouse.');

  await keyboard.press('Control+B');
  await expect(chat.list).toBeHidden();
  await keyboard.press('Control+B');
  await expect(chat.list).toBeVisible();
});

test('a rejection is made with the keyboard', async ({ chat, page }) => {
  const { keyboard } = page;
  await chat.ask('Remind me to call the carrier tomorrow');
  await expect(chat.cards).toHaveCount(1);
  await keyboard.press('Control+Shift+A');
  const reject = chat.cards.getByRole('button', { name: 'Reject…' });
  for (let i = 0; i < 20 && !(await hasFocus(reject)); i += 1) await keyboard.press('Tab');
  await keyboard.press('Enter');
  await expect(chat.cards.getByLabel(/^Why not\?/)).toBeFocused();
  await keyboard.press('Escape');
  await expect(reject, 'Escape goes back and stops nothing').toBeFocused();
  await keyboard.press('Enter');
  await keyboard.type('Not needed');
  await keyboard.press('Control+Enter');
  await expect(chat.last).toContainText('No task was created. A person said no: Not needed');
});

test('the help tells the keys, and closes', async ({ chat, page }) => {
  await chat.field.blur();
  await page.keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Keyboard' });
  await expect(help).toContainText('Go to what waits for you');
  await page.keyboard.press('Escape');
  await expect(help).toBeHidden();
});

test('a screen reader is told what waits and what was answered', async ({ chat, page }) => {
  const assertive = page.locator('[data-announcer="assertive"]');
  const polite = page.locator('[data-announcer="polite"]');
  await chat.ask('Reply to the newest thread');
  await expect(assertive).toHaveText(/^Approval needed\. /);
  await expect(assertive).toHaveAttribute('aria-live', 'assertive');
  await chat.cards.getByRole('button', { name: 'Approve', exact: true }).click();
  await expect(polite).toHaveText(/^Answer finished\. .*was approved and sent/);

  // What is over is not told again; what waits is.
  await chat.ask('Remind me to call the carrier tomorrow');
  await expect(chat.cards).toHaveCount(1);
  await page.reload();
  await expect(assertive).toHaveText(/^Approval needed\. /);
  await expect(polite).toHaveText('');
});

async function hasFocus(locator: import('@playwright/test').Locator): Promise<boolean> {
  return locator.evaluate((element) => element === document.activeElement);
}

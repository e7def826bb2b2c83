import { expect, test } from '../rig/test.ts';

test.describe('while it streams', () => {
  test.use({ pace: 200 });

  test('another tab sees the same', async ({ chat, page, otherTab }) => {
    await chat.ask('Which deliveries are late?');
    await chat.session();
    const other = await otherTab();
    await other.open(page.url());
    await expect(other.last).toHaveAttribute('aria-busy', 'true');
    await Promise.all([chat.done(), other.done()]);
    await expect(other.last).toContainText('Orders under way:');
    expect(await other.shown()).toBe(await chat.shown());

    // A message of one tab appears in the other.
    await other.ask('Which deliveries are late?');
    await expect(chat.turns).toHaveCount(2);
    await chat.stopButton.click();
    await expect(other.last).toContainText('Stopped');
  });
});

test('a decision of one tab settles the card of the other', async ({ chat, page, otherTab }) => {
  await chat.ask('Reply to the newest thread');
  await chat.session();
  await expect(chat.cards).toHaveCount(1);
  const other = await otherTab();
  await other.open(page.url());
  await other.cards.getByRole('button', { name: 'Approve', exact: true }).click();
  await expect(chat.last).toContainText('was approved and sent to');
  await expect(chat.cards).toHaveCount(0);
  await chat.done();
  expect(await other.shown()).toBe(await chat.shown());
});

test('a chat deleted in one tab says so in the other', async ({ chat, page, otherTab }) => {
  await chat.ask('Who works in billing?');
  await chat.session();
  await chat.done();
  const other = await otherTab();
  await other.open(page.url());
  await other.list.getByRole('button', { name: /^More about Who works/ }).click();
  await other.page.getByRole('menuitem', { name: 'Delete' }).click();
  await other.page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await expect(page.getByText('This chat has been deleted.')).toBeVisible();
  await expect(chat.field).toBeDisabled();
});

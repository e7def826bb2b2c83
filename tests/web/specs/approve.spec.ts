import { expect, test } from '../rig/test.ts';

interface Approvals {
  readonly items: readonly { readonly args: { readonly body: string } }[];
}

test('a reply is amended and approved', async ({ chat, server, page }) => {
  await chat.ask('Reply to the newest thread');
  const card = chat.card(/Reply/);
  await expect(card).toContainText('Waits for your approval');
  const body = card.getByLabel('Body');
  const drafted = await body.inputValue();
  const pending = await server.get<Approvals>('/v1/approvals');
  expect(drafted, 'what the card shows is what would run').toBe(pending.items[0]?.args.body);

  await body.fill(drafted.replace('writing to us', 'turning to us'));
  await expect(card.locator('ins')).toHaveText('turning');
  await expect(card.locator('del')).toHaveText('writing');
  await card.getByRole('button', { name: 'Undo change' }).click();
  await expect(body).toHaveValue(drafted);
  await body.fill('Dear customer, it is on its way.');
  await card.getByRole('button', { name: 'Approve with changes' }).click();

  await chat.done();
  await expect(chat.cards).toHaveCount(0);
  await expect(chat.last).toContainText('as you changed it: “Dear customer, it is on its way.”');
  await chat.tool(/^Reply/).click();
  await expect(chat.last).toContainText('Approved by');
  await expect(chat.last).toContainText('Changed before it ran');

  // It stays so.
  await page.reload();
  await expect(chat.last).toContainText('as you changed it: “Dear customer, it is on its way.”');
  await expect(chat.cards).toHaveCount(0);
});

test('a reply is rejected, and the agent reads why', async ({ chat, server }) => {
  await chat.ask('Reply to the newest thread');
  const card = chat.card(/Reply/);
  await card.getByRole('button', { name: 'Reject…' }).click();
  const reason = card.getByLabel(/^Why not\?/);
  await expect(reason).toBeFocused();
  await expect(card.getByRole('button', { name: 'Reject', exact: true })).toBeInViewport();
  await reason.fill('I will call instead');
  await card.getByRole('button', { name: 'Reject', exact: true }).click();

  await chat.done();
  await expect(chat.last).toContainText('the answer was not approved. A person said no: I will call instead');
  await chat.tool(/^Reply/).click();
  await expect(chat.last).toContainText('“I will call instead”');
  expect(await server.get<Approvals>('/v1/approvals')).toEqual({ items: [] });
});

test('several decisions wait at once', async ({ chat, page }) => {
  await chat.ask('Remind me to call the carrier tomorrow and remind me to count the stock in 3 days');
  await expect(chat.cards).toHaveCount(2);
  await expect(page).toHaveTitle(/^\(2\) /);
  await page.getByRole('button', { name: 'Go to the first' }).click();
  const [first, second] = [chat.cards.first(), chat.cards.last()];
  await expect(first.getByRole('heading')).toBeFocused();
  await expect(first.getByLabel('Title')).toHaveValue('Call the carrier');
  await expect(second.getByLabel('Title')).toHaveValue('Count the stock');

  await second.getByLabel('Title').fill('Count the stock in the cellar');
  await second.getByRole('button', { name: 'Approve with changes' }).click();
  await expect(chat.cards).toHaveCount(1);
  await expect(first.getByLabel('Title')).toHaveValue('Call the carrier');
  await first.getByRole('button', { name: 'Approve', exact: true }).click();

  await chat.done();
  await expect(chat.last).toContainText('The task Call the carrier was created');
  await expect(chat.last).toContainText('The task Count the stock in the cellar was created, as you changed it');
  await expect(page).not.toHaveTitle(/^\(/);
});

test('an approval can hold for the rest of the chat', async ({ chat }) => {
  await chat.ask('Remind me to call the carrier tomorrow');
  await chat.cards.getByRole('button', { name: 'More ways to approve' }).click();
  await chat.page.getByRole('menuitem', { name: /^Always allow in this chat/ }).click();
  await chat.done();
  await chat.ask('Remind me to count the stock in 3 days');
  await expect(chat.last).toContainText('The task Count the stock was created');
  await expect(chat.cards).toHaveCount(0);
});

test('a new message sets a pending decision aside', async ({ chat }) => {
  await chat.ask('Reply to the newest thread');
  await expect(chat.cards).toHaveCount(1);
  await chat.ask('Who works in billing?');
  await expect(chat.last).toContainText('Victor Lang');
  await expect(chat.cards).toHaveCount(0);
  await expect(chat.turns.first()).toContainText('superseded');
});

test('a change that does not fit runs nothing, and the agent says so', async ({ chat }) => {
  await chat.ask('Remind me to call the carrier tomorrow');
  await chat.cards.getByLabel('Title').fill('');
  await chat.cards.getByRole('button', { name: 'Approve with changes' }).click();
  await chat.done();
  await expect(chat.tool(/^Create task/)).toContainText('arguments do not fit');
  await expect(chat.last).toContainText('create_task did not work: title: is empty');
});

test('what was not set can be set', async ({ chat }) => {
  await chat.ask('Remind me to call the carrier tomorrow');
  const card = chat.cards;
  await expect(card.getByLabel('Priority')).toBeHidden();
  await card.getByText('Also: description, priority').click();
  await card.getByLabel('Priority').selectOption('urgent');
  await card.getByRole('button', { name: 'Approve with changes' }).click();
  await chat.done();
  await chat.tool(/^Create task/).click();
  await expect(chat.last).toContainText('urgent');
});

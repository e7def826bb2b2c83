import { expect, test } from '../rig/test.ts';

// The browser itself reports the requests that find no server.
test.use({ expected: /Failed to load resource|net::ERR_/ });

test.describe('while text streams', () => {
  test.use({ pace: 200 });

  test('the server is killed and comes back: the page goes on', async ({ chat, page, server }) => {
    await chat.ask('Which deliveries are late?');
    await expect(chat.last).toContainText('Open threads that match');
    await server.kill();
    await expect(page.getByRole('status').filter({ hasText: 'The connection broke' })).toBeVisible();
    await expect(chat.last, 'what was there stays').toContainText('Open threads that match');
    await server.restart();
    await expect(page.getByText('The connection broke')).toBeHidden();
    await chat.done();
    await expect(chat.last).toContainText('Orders under way:');
    await expect(chat.turns).toHaveCount(1);

    const shown = await chat.shown();
    await page.reload();
    await expect(chat.last).toContainText('Orders under way:');
    expect(await chat.shown()).toBe(shown);
  });
});

test('a card waits through a crash, and a decision made meanwhile arrives', async ({ chat, page, server }) => {
  await chat.ask('Reply to the newest thread');
  await expect(chat.cards).toHaveCount(1);
  await server.kill();
  await expect(page.getByText('The connection broke')).toBeVisible();
  await expect(chat.cards).toHaveCount(1);
  await chat.cards.getByRole('button', { name: 'Approve', exact: true }).click();
  await expect(chat.cards).toContainText('Approved, on its way');
  await server.restart();
  await chat.done();
  await expect(chat.last).toContainText('was approved and sent to');
  await expect(chat.cards).toHaveCount(0);
});

test('a message sent while the server is away is delivered once', async ({ chat, page, server }) => {
  await chat.ask('Who works in billing?');
  const id = await chat.session();
  await chat.done();
  await server.kill();
  await expect(page.getByText('The connection broke')).toBeVisible();
  await chat.ask('Which deliveries are late?');
  await expect(chat.log).toContainText('Sending');
  await server.restart();
  await expect(chat.turns).toHaveCount(2);
  await expect(chat.last).toContainText('Orders under way:');
  const { items } = await server.get<{ readonly items: readonly unknown[] }>(`/v1/sessions/${id}/turns`);
  expect(items).toHaveLength(2);
});

test('a page opened while the server is away comes up when it does', async ({ chat, page, context }) => {
  await chat.ask('Who works in billing?');
  await chat.session();
  await chat.done();
  const address = page.url();
  // The page itself is there, only the API is not.
  const other = await context.newPage();
  let away = true;
  await other.route('**/v1/**', (route) => (away ? route.abort() : route.continue()));
  await other.goto(address);
  await expect(other.getByRole('status')).toContainText('Trying again');
  away = false;
  await expect(other.getByRole('log')).toContainText('Victor Lang');
  await other.close();
});

import { expect, test } from '../rig/test.ts';

/** The words of a text that still grows, but for the last, which may be cut. Its markup is not: a list begins as a dash. */
function words(text: string): string {
  return (text.match(/[\p{L}\p{N}]+/gu) ?? []).slice(0, -1).join(' ');
}

test.describe('while text streams', () => {
  test.use({ pace: 200 });

  test('a reload shows what was there, and it goes on', async ({ chat, page }) => {
    await chat.ask('Which deliveries are late?');
    await chat.session();
    await expect(chat.last).toContainText('Open threads that match');
    const before = await chat.answer();
    await page.reload();
    await expect.poll(async () => words(await chat.answer())).toContain(words(before));
    const after = await chat.answer();
    await expect(chat.last).toHaveAttribute('aria-busy', 'true');
    await chat.done();
    const whole = await chat.answer();
    expect(words(whole).startsWith(words(after)), 'it went on from where it was').toBe(true);
    expect(whole.length, 'it was still streaming').toBeGreaterThan(after.length);

    const shown = await chat.shown();
    await page.reload();
    await expect(chat.last).toContainText('Orders under way:');
    expect(await chat.shown()).toBe(shown);
  });

  test('ten reloads in a row lose nothing', async ({ chat, page, server }) => {
    await chat.ask('Which deliveries are late?');
    const id = await chat.session();
    for (let i = 0; i < 10; i += 1) {
      await page.reload();
      await expect(chat.turns).toHaveCount(1);
    }
    await chat.done();
    await expect(chat.last).toContainText('Orders under way:');
    const { messages } = await server.get<{ readonly messages: readonly unknown[] }>(`/v1/sessions/${id}`);
    expect(messages).toHaveLength(2);
  });

  test('what is being written survives a reload', async ({ chat, page }) => {
    await chat.ask('Which deliveries are late?');
    await chat.session();
    await chat.field.fill('And the refund policy?');
    await page.reload();
    await expect(chat.field).toHaveValue('And the refund policy?');
    await expect(chat.last).toHaveAttribute('aria-busy', 'true');
  });
});

test('while a card waits, a reload shows it with all that was changed', async ({ chat, page }) => {
  await chat.ask('Reply to the newest thread');
  await chat.session();
  const body = chat.cards.getByLabel('Body');
  await body.fill(`Good morning!\n\n${await body.inputValue()}`);
  await expect(chat.cards.getByRole('button', { name: 'Approve with changes' })).toBeEnabled();
  const shown = await chat.shown();
  const written = await body.inputValue();

  await page.reload();
  await expect(chat.cards).toHaveCount(1);
  await expect(body).toHaveValue(written);
  expect(await chat.shown()).toBe(shown);

  await chat.cards.getByRole('button', { name: 'Approve with changes' }).click();
  await chat.done();
  await expect(chat.last).toContainText('as you changed it: “Good morning!');
});

test('a message that was under way when the page was reloaded arrives once', async ({ chat, page, server }) => {
  let asked = 0;
  // The first request never leaves the page; the second one arrives, but its answer does not.
  await page.route('**/v1/sessions/*/turns', async (route) => {
    asked += 1;
    if (asked === 2) await route.fetch();
    if (asked > 2) await route.continue();
  });
  await chat.ask('Which deliveries are late?');
  const id = await chat.session();
  await expect.poll(() => asked).toBe(1);
  await page.reload();
  await expect.poll(() => asked).toBe(2);
  await expect(chat.turns).toHaveCount(1);
  await page.reload();
  await chat.done();
  await expect(chat.last).toContainText('Orders under way:');
  await expect(chat.log).not.toContainText('Sending');
  await expect(chat.turns).toHaveCount(1);
  const { items } = await server.get<{ readonly items: readonly unknown[] }>(`/v1/sessions/${id}/turns`);
  expect(items).toHaveLength(1);
});

test('a chat that was being made when the page was reloaded gives its text back', async ({ chat, page }) => {
  let asked = 0;
  await page.route('**/v1/sessions', async (route) => {
    if (route.request().method() !== 'POST') await route.continue();
    else asked += 1;
  });
  await chat.ask('Which deliveries are late?');
  await expect.poll(() => asked).toBe(1);
  await expect(chat.field).toHaveValue('');
  await page.reload();
  await expect(chat.field).toHaveValue('Which deliveries are late?');
  await page.unroute('**/v1/sessions');
  await chat.field.press('Enter');
  await chat.session();
  await chat.done();
  await expect(chat.last).toContainText('Orders under way:');
  await expect(chat.field).toHaveValue('');
});

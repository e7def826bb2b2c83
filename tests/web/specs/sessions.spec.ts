import { expect, test } from '../rig/test.ts';

const ASKED = ['Who works in billing?', 'Which deliveries are late?', 'How do I descale the Bramling One?'] as const;

test('chats are listed, searched, renamed and deleted', async ({ chat, page }) => {
  for (const text of ASKED) {
    await page.getByRole('button', { name: /^New chat/ }).first().click();
    await chat.ask(text);
    await chat.session();
    await chat.done();
  }
  const links = chat.list.getByRole('link');
  await expect(links).toHaveCount(3);
  await expect(links.first(), 'the latest is first').toContainText(ASKED[2]);

  // What was said is found, not only titles.
  const search = page.getByRole('searchbox', { name: 'Search chats' });
  await page.keyboard.press('Control+k');
  await expect(search).toBeFocused();
  await search.fill('Victor Lang');
  await expect(links).toHaveCount(1);
  await expect(links.first()).toContainText(ASKED[0]);
  await search.fill('no such words anywhere');
  await expect(chat.list).toContainText('Nothing found.');
  await search.press('Escape');
  await expect(links).toHaveCount(3);

  await links.filter({ hasText: ASKED[1] }).click();
  await expect(chat.last).toContainText('Orders under way:');

  await chat.list.getByRole('button', { name: `More about ${ASKED[1]}` }).click();
  await page.getByRole('menuitem', { name: 'Rename' }).click();
  await page.getByRole('dialog').getByLabel('Title').fill('Late parcels');
  await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Late parcels');
  await expect(links.filter({ hasText: 'Late parcels' })).toHaveCount(1);

  await chat.list.getByRole('button', { name: 'More about Late parcels' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('“Late parcels” and everything in it will be gone for good.');
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await expect(links).toHaveCount(2);
  await expect(page).toHaveURL(/\/$/);
  await page.reload();
  await expect(links).toHaveCount(2);
});

test('the title is changed where it stands', async ({ chat, page }) => {
  await chat.ask(ASKED[0]);
  await chat.session();
  await chat.done();
  await page.getByRole('heading', { level: 1 }).getByRole('button').click();
  const title = page.getByRole('textbox', { name: 'Title of the chat' });
  await title.fill('People of billing');
  await title.press('Enter');
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('People of billing');
  await expect(chat.list.getByRole('link', { name: /^People of billing/ })).toBeVisible();
  await expect(page).toHaveTitle('People of billing · Turnbuckle');
});

test('back and forward move between chats', async ({ chat, page }) => {
  await chat.ask(ASKED[0]);
  await chat.session();
  await chat.done();
  await page.getByRole('button', { name: /^New chat/ }).first().click();
  await expect(page.getByRole('heading', { name: 'What needs doing at the desk?' })).toBeVisible();
  await page.goBack();
  await expect(chat.last).toContainText('Victor Lang');
  await page.goForward();
  await expect(page.getByRole('heading', { name: 'What needs doing at the desk?' })).toBeVisible();
});

test.describe('an address that leads nowhere', () => {
  test.use({ expected: /Failed to load resource: the server responded with a status of 404/ });

  for (const path of ['/s/s_nothing', '/s/%00', '/s/%E0%A4%A', '/s/..%2F..%2Fv1%2Fkeys']) {
    test(`says so: ${path}`, async ({ server, page }) => {
      await page.goto(server.url + path);
      await expect(page.getByRole('heading', { name: 'There is no such chat' })).toBeVisible();
      await page.getByRole('button', { name: /^New chat/ }).first().click();
      await expect(page.getByRole('heading', { name: 'What needs doing at the desk?' })).toBeVisible();
    });
  }
});

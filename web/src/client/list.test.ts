import { expect, test } from 'vitest';
import { FakeServer, json, problem } from '../../test/server';
import { SessionList } from './list';

test('whether older chats could be loaded and whether the list is up to date are two things', async () => {
  const server = new FakeServer().on('GET /v1/sessions', (request) =>
    new URL(request.url).searchParams.has('cursor') ? problem(403, 'forbidden', 'Not for you.') : json({ items: [], next: 'c_1' }),
  );
  const list = new SessionList(server.api);
  await list.refresh();
  await expect(list.more()).rejects.toMatchObject({ code: 'forbidden' });
  expect(list.getState()).toMatchObject({ next: 'c_1', error: null });
});

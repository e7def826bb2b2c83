import { afterEach, expect, test, vi } from 'vitest';
import { FakeServer, json, problem } from '../../test/server';
import { Feed, type FeedState } from './feed';

/** A feed that somebody looks at. */
async function open(server: FakeServer): Promise<Feed> {
  const feed = new Feed('s_1', server.api, (draw) => draw());
  feed.subscribe(() => undefined);
  await until(feed, (state) => state.link.is === 'live');
  return feed;
}

afterEach(() => {
  sessionStorage.clear();
  vi.useRealTimers();
});

const until = (feed: Feed, holds: (state: FeedState) => boolean): Promise<void> =>
  vi.waitFor(() => expect(holds(feed.state)).toBe(true));

const refusal = problem(422, 'invalid_request', 'title: must not be empty');

test('a title that the server does not take is taken back, and that is said', async () => {
  const server = new FakeServer().on('PATCH /v1/sessions/s_1', () => refusal.clone());
  const feed = await open(server);
  const renaming = feed.rename('Late parcels');
  expect(feed.state.fold.title).toBe('Late parcels');
  await renaming;
  expect(feed.state.fold.title).toBe('Parcels');
  expect(feed.state.refused).toMatchObject({ what: 'rename', why: { code: 'invalid_request' } });
  feed.dismiss();
  expect(feed.state.refused).toBe(null);
});

test('a title is as the server keeps it', async () => {
  const server = new FakeServer().on('PATCH /v1/sessions/s_1', async (request) => {
    const { title } = (await request.json()) as { readonly title: string };
    return json({ id: 's_1', title: title.trim() });
  });
  const feed = await open(server);
  await feed.rename(' Late parcels ');
  expect(feed.state.fold.title).toBe('Late parcels');
});

test('a title that somebody gives elsewhere shows', async () => {
  const server = new FakeServer().on(
    'GET /v1/sessions/s_1/events',
    () =>
      new Response('event: title\ndata: {"title":"Late parcels"}\n\n', {
        headers: { 'content-type': 'text/event-stream' },
      }),
  );
  const feed = new Feed('s_1', server.api, (draw) => draw());
  feed.subscribe(() => undefined);
  await until(feed, (state) => state.fold.title === 'Late parcels');
});

test('a stop that is refused is said', async () => {
  const server = new FakeServer().on('POST /v1/sessions/s_1/stop', () => problem(403, 'forbidden', 'Not for you.'));
  const feed = await open(server);
  await feed.stop();
  expect(feed.state).toMatchObject({ stopping: false, refused: { what: 'stop' } });
});

test('a message that is known from the server before its answer comes is shown once', async () => {
  const server = new FakeServer();
  server.queued = [{ n: 1, at: '2026-11-28T09:00:00.000Z', kind: 'message', turn: 't_1', delivery: 'queue', content: 'Hello' }];
  let answer: (response: Response) => void = () => undefined;
  server.on('POST /v1/sessions/s_1/turns', () => new Promise((resolve) => (answer = resolve)));
  const feed = new Feed('s_1', server.api, (draw) => draw());
  feed.send('Hello', 'queue');
  feed.subscribe(() => undefined);
  await until(feed, (state) => state.link.is === 'live');
  answer(json({ turn: 't_1', message: 't_1-u', after: '0', duplicate: false }, 202));
  await until(feed, (state) => state.outgoing.every((o) => o.turn === 't_1'));
  expect(feed.state.outgoing).toMatchObject([{ content: 'Hello', turn: 't_1' }]);
});

test('a message that is refused stays, with what was wrong', async () => {
  const server = new FakeServer().on('POST /v1/sessions/s_1/turns', () => problem(413, 'too_large', 'The text is too long.'));
  const feed = await open(server);
  feed.send('Hello', 'queue');
  await until(feed, (state) => state.outgoing[0]?.error != null);
  const [refused] = feed.state.outgoing;
  expect(refused).toMatchObject({ content: 'Hello', error: { code: 'too_large' } });
  expect(feed.discard(refused?.key ?? '')).toBe(refused);
  expect(feed.state.outgoing).toEqual([]);
});

/** A server that never answers a message, and notes under which key it came. */
function silent(keys: (string | null)[]): FakeServer {
  return new FakeServer().on('POST /v1/sessions/s_1/turns', (request) => {
    keys.push(request.headers.get('idempotency-key'));
    return new Promise(() => undefined);
  });
}

test('messages under way when the page is left are sent by the next one, in order and under their keys', async () => {
  const before: (string | null)[] = [];
  const left = await open(silent(before));
  left.send('First', 'queue');
  left.send('Second', 'steer');
  await vi.waitFor(() => expect(before).toHaveLength(2));

  const after: unknown[] = [];
  const server = new FakeServer().on('POST /v1/sessions/s_1/turns', async (request) => {
    after.push([request.headers.get('idempotency-key'), await request.json()]);
    return json({ turn: `t_${after.length}`, message: `t_${after.length}-u`, after: '0', duplicate: after.length === 1 }, 202);
  });
  const feed = new Feed('s_1', server.api, (draw) => draw());
  expect(feed.state.outgoing.map((o) => o.content), 'they show at once').toEqual(['First', 'Second']);
  feed.subscribe(() => undefined);
  await until(feed, (state) => state.outgoing.every((o) => o.turn !== null));
  expect(after).toEqual([
    [before[0], { content: 'First', delivery: 'queue' }],
    [before[1], { content: 'Second', delivery: 'steer' }],
  ]);

  const third = new Feed('s_1', server.api);
  expect(third.state.outgoing, 'what was taken is not sent again').toEqual([]);
  expect(new Feed('s_2', server.api).state.outgoing, 'another chat knows nothing of it').toEqual([]);
});

test('what was left long ago, or had failed, waits for a person', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000 });
  const keys: (string | null)[] = [];
  const feed = await open(silent(keys));
  feed.send('Hello', 'queue');
  await vi.waitFor(() => expect(keys).toHaveLength(1));
  vi.setSystemTime(1_000_000 + 10 * 60_000);
  const later: (string | null)[] = [];
  const back = await open(silent(later));
  expect(back.state.outgoing).toMatchObject([{ content: 'Hello', error: { message: 'The page was left before this was sent.' } }]);
  expect(later).toEqual([]);
  back.resend(back.state.outgoing[0]?.key ?? '');
  await vi.waitFor(() => expect(later).toEqual(keys));

  back.discard(keys[0] ?? '');
  const server = new FakeServer().on('POST /v1/sessions/s_1/turns', () => problem(413, 'too_large', 'The text is too long.'));
  const refused = await open(server);
  refused.send('Too long', 'queue');
  await until(refused, (state) => state.outgoing[0]?.error != null);
  const last = await open(silent(later));
  expect(last.state.outgoing).toMatchObject([{ content: 'Too long', error: { message: 'The page was left before this was sent.' } }]);
  expect(later).toHaveLength(1);
});

test('a session that somebody deleted is said to be gone', async () => {
  const server = new FakeServer().on(
    'GET /v1/sessions/s_1/events',
    () => new Response('event: session-deleted\ndata: {}\n\n', { headers: { 'content-type': 'text/event-stream' } }),
  );
  const feed = new Feed('s_1', server.api, (draw) => draw());
  feed.subscribe(() => undefined);
  await until(feed, (state) => state.link.is === 'deleted');
});

test('what cannot be read is a fault: the session is loaded anew, but not for ever', async () => {
  let asked = 0;
  const server = new FakeServer().on('GET /v1/sessions/s_1/events', () => {
    asked += 1;
    return new Response('id: 1\ndata: {"seq":\n\n', { headers: { 'content-type': 'text/event-stream' } });
  });
  const feed = new Feed('s_1', server.api, (draw) => draw());
  feed.subscribe(() => undefined);
  await until(feed, (state) => state.link.is === 'failed');
  expect(asked).toBe(5);
});

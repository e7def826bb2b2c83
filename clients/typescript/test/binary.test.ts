/** The client against the real binary: what a program does with it, over connections that break and a server that dies. */

import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Server } from '../../../tests/web/rig/server.ts';
import { createClient, Problem, unwrap, watch, type Client, type Message, type Told, type TurnEnd } from '../src/index.ts';
import { BreakingProxy } from './breaking.ts';

let server: Server;
let client: Client;

function serve(pace: number): void {
  beforeEach(async () => {
    server = await Server.start({ pace });
    client = createClient({ url: server.url });
  }, 60_000);
  afterEach(() => server.remove());
}

/** What a session's messages are, as they are stored. */
async function stored(session: string): Promise<readonly Message[]> {
  const detail = await unwrap(client.GET('/v1/sessions/{session}', { params: { path: { session } } }));
  // The document leaves open what a message is.
  return detail.messages as readonly unknown[] as readonly Message[];
}

async function begin(content: string): Promise<{ readonly session: string; readonly turn: string; readonly after: string }> {
  const { id: session } = await unwrap(client.POST('/v1/sessions', { body: { title: 'From a program' } }));
  const submitted = client.POST('/v1/sessions/{session}/turns', {
    params: { path: { session }, header: { 'Idempotency-Key': crypto.randomUUID() } },
    body: { content },
  });
  return { session, ...(await unwrap(submitted)) };
}

async function collect(from: AsyncGenerator<Told>): Promise<readonly Told[]> {
  const all: Told[] = [];
  for await (const told of from) all.push(told);
  return all;
}

const eventsOf = (all: readonly Told[]) => all.flatMap((told) => (told.is === 'event' ? [told.event] : []));
const endOf = (all: readonly Told[]): TurnEnd | undefined => all.flatMap((told) => (told.is === 'turn-end' ? [told.end] : [])).at(-1);

/** The assistant's message as the last event about it told it. */
function toldMessage(all: readonly Told[]): unknown {
  const last = eventsOf(all).findLast((event) => event.type === 'assistant-message-finished');
  return last?.type === 'assistant-message-finished' ? { role: 'assistant', ...last.message } : undefined;
}

describe('a program', () => {
  serve(1);

  test('asks, watches over connections that break, amends and approves', async () => {
    let connections = 0;
    // Too little for one event at times, and seldom enough for all of them.
    const proxy = new BreakingProxy(new URL(server.url), () => 750 * 2 ** ((connections += 1) % 9));
    const watching = createClient({ url: await proxy.listen() });
    try {
      const { session, turn, after } = await begin('Reply to the newest thread');
      const asked = await collect(watch(watching, session, { after, until: turn }));
      expect(endOf(asked)).toMatchObject({ turn, outcome: { status: 'paused' } });

      const cards = await unwrap(client.GET('/v1/approvals', { params: { query: { session } } }));
      expect(cards.items).toHaveLength(1);
      const [card] = cards.items;
      if (card === undefined) throw new Error('no card waits');
      const decided = await unwrap(
        client.POST('/v1/approvals/{approval}', {
          params: { path: { approval: card.id }, header: { 'Idempotency-Key': crypto.randomUUID() } },
          body: { decision: 'approve', amendment: { body: 'It is on its way.' } },
        }),
      );
      const answered = await collect(watch(watching, session, { after: decided.after, until: turn }));
      expect(endOf(answered)).toMatchObject({ turn, outcome: { status: 'completed' }, idle: true });

      const events = eventsOf([...asked, ...answered]);
      expect(events.map((event) => event.seq), 'each event once, without a gap').toEqual(events.map((_, i) => i + 1));
      expect(toldMessage(answered)).toEqual((await stored(session)).find((message) => message.role === 'assistant'));
      const text = events.flatMap((event) => (event.type === 'text-delta' ? [event.text] : [])).join('');
      expect(text).toContain('as you changed it: “It is on its way.”');
      expect(proxy.breaks).toBeGreaterThan(2);
    } finally {
      await proxy.close();
    }
  }, 60_000);

  test('is told by a problem what it did wrong', async () => {
    const refused = unwrap(client.POST('/v1/sessions/{session}/turns', {
      params: { path: { session: 's_nothing' } },
      body: { content: 'Hello' },
    }));
    await expect(refused).rejects.toMatchObject({ status: 404, code: 'not_found' });
    await expect(collect(watch(client, 's_nothing'))).rejects.toBeInstanceOf(Problem);
  });

  test('submits twice under one key and asks once', async () => {
    const { id: session } = await unwrap(client.POST('/v1/sessions', { body: {} }));
    const submit = () =>
      unwrap(
        client.POST('/v1/sessions/{session}/turns', {
          params: { path: { session }, header: { 'Idempotency-Key': 'once' } },
          body: { content: 'Who works in billing?' },
        }),
      );
    const [first, second] = [await submit(), await submit()];
    expect(second).toEqual({ ...first, duplicate: true });
    await collect(watch(client, session, { after: first.after, until: 'idle' }));
    expect(await stored(session)).toHaveLength(2);
  });

  test('hears that a session is gone', async () => {
    const { session, turn } = await begin('Who works in billing?');
    await collect(watch(client, session, { until: turn }));
    const gone = collect(watch(client, session, { after: '0', onState: (state) => state.is === 'live' && remove() }));
    let removal: Promise<unknown> | undefined;
    const remove = (): void => {
      removal ??= client.DELETE('/v1/sessions/{session}', { params: { path: { session } } });
    };
    expect((await gone).at(-1)).toEqual({ is: 'deleted' });
    // The watch may hear of it before the answer is there.
    await removal;
  });
});

describe('a turn that takes its time', () => {
  serve(40);

  test('is stopped, and keeps what it had', async () => {
    const { session, turn, after } = await begin('Which deliveries are late?');
    const all: Told[] = [];
    for await (const told of watch(client, session, { after, until: turn })) {
      all.push(told);
      const isFirstText = all.filter((t) => t.is === 'event' && t.event.type === 'text-delta').length === 1;
      if (isFirstText && told.is === 'event' && told.event.type === 'text-delta') {
        const stopped = client.POST('/v1/sessions/{session}/turns/{turn}/stop', { params: { path: { session, turn } } });
        expect(await unwrap(stopped)).toEqual({ turn, state: 'stopping' });
      }
    }
    expect(endOf(all)).toMatchObject({ turn, outcome: { status: 'aborted', reason: 'stopped' } });
    expect(toldMessage(all)).toEqual((await stored(session)).find((message) => message.role === 'assistant'));
  }, 60_000);

  test('goes on after its server was killed, and so does the watch', async () => {
    const { session, turn, after } = await begin('Which deliveries are late?');
    const all: Told[] = [];
    let isKilled = false;
    let restarted: Promise<void> = Promise.resolve();
    for await (const told of watch(client, session, { after, until: turn })) {
      all.push(told);
      const isText = told.is === 'event' && told.event.type === 'text-delta' && told.event.text.includes('Open');
      if (isText && !isKilled) {
        isKilled = true;
        await server.kill();
        restarted = server.restart();
      }
    }
    await restarted;
    expect(isKilled).toBe(true);
    expect(endOf(all)).toMatchObject({ turn, outcome: { status: 'completed' } });
    expect(eventsOf(all).some((event) => (event.epoch ?? 0) > 0), 'another process took it up').toBe(true);
    expect(toldMessage(all)).toEqual((await stored(session)).find((message) => message.role === 'assistant'));
  }, 60_000);
});

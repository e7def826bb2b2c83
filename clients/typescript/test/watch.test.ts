import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Backoff } from '../src/backoff.ts';
import { Problem, Unreachable } from '../src/problem.ts';
import type { Frame } from '../src/sse.ts';
import { follow, toldBy, type FollowOptions, type OpenStream, type WatchState } from '../src/watch.ts';

const encoder = new TextEncoder();
const eventFrame = (n: number): string => `id: ${n}\ndata: {"seq":${n},"text":"é 😀 ${n}"}\n\n`;

/** How a connection goes: after how many bytes it breaks, or that it ends in an orderly way after all there is. */
type Way = { readonly breaksAfter: number } | 'ends';

/** A server with `total` events. Its connections go these ways, one after the other; the last one goes on. */
function serverOf(total: number, ways: readonly Way[], tail = ''): { readonly open: OpenStream; readonly asked: string[] } {
  const asked: string[] = [];
  const left = [...ways];
  const open: OpenStream = (after) => {
    asked.push(after);
    const way = left.shift() ?? 'ends';
    const from = Number(after);
    const text = Array.from({ length: total - from }, (_, i) => eventFrame(from + i + 1)).join('') + tail;
    const bytes = encoder.encode(text);
    return Promise.resolve(
      new ReadableStream<Uint8Array>({
        start(controller) {
          if (way === 'ends') {
            controller.enqueue(bytes);
            controller.close();
          } else {
            const piece = bytes.slice(0, way.breaksAfter);
            if (piece.length > 0) controller.enqueue(piece);
          }
        },
        // What was enqueued is read before the break is felt.
        pull(controller) {
          controller.error(new TypeError('network error'));
        },
      }, { highWaterMark: 0 }),
    );
  };
  return { open, asked };
}

const now = new Backoff(0, 0);

async function read(open: OpenStream, options: Partial<FollowOptions> = {}): Promise<Frame[]> {
  const frames: Frame[] = [];
  const signal = new AbortController().signal;
  for await (const some of follow(open, '0', { signal, ends: true, backoff: now, ...options })) frames.push(...some);
  return frames;
}

test('a frame tells an event, the end of a turn, a title, or that the session is gone', () => {
  const frame = (event: string | undefined, data: object, id?: string): Frame => {
    return { id, event, data: JSON.stringify(data), retry: undefined };
  };
  expect(toldBy(frame(undefined, { seq: 1 }, '1'))).toEqual({ is: 'event', id: '1', event: { seq: 1 } });
  expect(toldBy(frame('turn-end', { seq: 1 }))).toEqual({ is: 'turn-end', end: { seq: 1 } });
  expect(toldBy(frame('title', { title: 'Late parcels' }))).toEqual({ is: 'title', title: 'Late parcels' });
  expect(toldBy(frame('session-deleted', {}))).toEqual({ is: 'deleted' });
  expect(toldBy(frame('of a newer version', {}))).toBe(null);
});

describe('following a stream', () => {
  test('every frame comes once and in order, wherever connections break', async () => {
    const way = fc.nat(400).map((breaksAfter): Way => ({ breaksAfter }));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 20 }), fc.array(way, { maxLength: 8 }), async (total, ways) => {
        const frames = await read(serverOf(total, ways).open);
        expect(frames.map((frame) => frame.id)).toEqual(Array.from({ length: total }, (_, i) => String(i + 1)));
        expect(frames.at(-1)?.data).toBe(`{"seq":${total},"text":"é 😀 ${total}"}`);
      }),
      { numRuns: 60 },
    );
  });

  test('a connection is taken up behind the last frame that came whole', async () => {
    const { open, asked } = serverOf(3, [{ breaksAfter: encoder.encode(eventFrame(1)).length + 5 }]);
    await read(open);
    expect(asked).toEqual(['0', '1']);
  });

  test('a server that says bye is asked again, though an orderly end is wanted', async () => {
    const { open: first } = serverOf(1, [], 'event: bye\ndata: {}\n\n');
    const { open: second } = serverOf(2, []);
    let calls = 0;
    const frames = await read((after, signal) => ((calls += 1) === 1 ? first(after, signal) : second(after, signal)));
    expect(frames.flatMap((frame) => frame.id ?? [])).toEqual(['1', '2']);
    expect(calls).toBe(2);
  });

  test('a refusal ends it', async () => {
    const refused = new Problem(404, 'not_found', 'Not found');
    await expect(read(() => Promise.reject(refused))).rejects.toBe(refused);
  });

  test('a server that is away is asked again, and the reader is told why', async () => {
    const { open } = serverOf(1, []);
    const states: WatchState[] = [];
    let calls = 0;
    const frames = await read(
      (after, signal) => ((calls += 1) <= 2 ? Promise.reject(new Unreachable('refused')) : open(after, signal)),
      { onState: (state) => states.push(state) },
    );
    expect(frames).toHaveLength(1);
    expect(states.map((state) => state.is)).toEqual([
      'connecting',
      'waiting',
      'connecting',
      'waiting',
      'connecting',
      'live',
    ]);
    expect(states[1]).toMatchObject({ why: new Unreachable('refused') });
  });

  test('a reader who leaves closes the connection', async () => {
    let cancelled = false;
    const open: OpenStream = () =>
      Promise.resolve(
        new ReadableStream<Uint8Array>({
          start: (controller) => controller.enqueue(encoder.encode(eventFrame(1))),
          cancel: () => {
            cancelled = true;
          },
        }),
      );
    const life = new AbortController();
    for await (const frames of follow(open, '0', { signal: life.signal })) {
      expect(frames).toHaveLength(1);
      break;
    }
    expect(cancelled).toBe(true);
  });

  test('a reader who gave up is not asked for more', async () => {
    const life = new AbortController();
    life.abort();
    expect(await read(() => Promise.reject(new Error('nobody asks')), { signal: life.signal })).toEqual([]);
  });
});

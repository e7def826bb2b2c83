/**
 * Follows a session's events over any number of broken connections. What the connections carry is given on in order,
 * each event once: the server goes on exactly behind the last `id`.
 */

import { Backoff, isOver, sleep } from './backoff.ts';
import type { Client } from './client.ts';
import type { Event, TurnEnd } from './events.ts';
import { isPassing, Problem, Unreachable } from './problem.ts';
import { framesOf, type Frame } from './sse.ts';

/** Silence after which a connection counts as dead; the server sends a comment every 15 s. */
const SILENCE = 40_000;

/** What a watched session tells. */
export type Told =
  | {
      readonly is: 'event';
      /** Where to go on from after it: `after` of another `watch`. */
      readonly id: string;
      readonly event: Event;
    }
  /** A turn ended or paused. */
  | { readonly is: 'turn-end'; readonly end: TurnEnd }
  /** Somebody gave the session a title; those that turns give are events. */
  | { readonly is: 'title'; readonly title: string }
  /** The session is gone, and so is what it told. */
  | { readonly is: 'deleted' };

export interface WatchOptions {
  /** Behind which place: `after` of an answer, an `id` of an earlier stream, or an event's number. `0` by default. */
  readonly after?: string;
  /** A turn's id or `idle`: what ends it. Without it, it goes on until `signal` ends it. */
  readonly until?: string;
  readonly signal?: AbortSignal;
  readonly onState?: (state: WatchState) => void;
}

export type WatchState =
  | { readonly is: 'connecting' }
  | { readonly is: 'live' }
  /** The connection broke; `at` is when the next try is due. Without `why`, the server asked to come again. */
  | { readonly is: 'waiting'; readonly at: number; readonly why: unknown };

/**
 * What a session tells behind a place. A broken connection is taken up again where it broke; the reader does not notice.
 *
 * An event whose `epoch` is higher than before and whose `seq` is not voids what was told from that `seq` on: its process
 * died before it was stored.
 *
 * @throws Problem when the session is not there or not for the caller.
 */
export async function* watch(
  client: Client,
  session: string,
  options: WatchOptions = {},
): AsyncGenerator<Told, void, undefined> {
  const { until } = options;
  const open: OpenStream = (after, signal) => openEvents(client, session, { after, until, signal });
  const following = follow(open, options.after ?? '0', {
    signal: options.signal ?? new AbortController().signal,
    ends: until !== undefined,
    onState: options.onState,
  });
  for await (const frames of following) {
    for (const frame of frames) {
      const told = toldBy(frame);
      if (told === null) continue;
      yield told;
      if (told.is === 'deleted') return;
    }
  }
}

/** What a frame of a session's stream tells; `null` when it tells nothing of the session. */
export function toldBy({ id, event, data }: Frame): Told | null {
  if (event === 'session-deleted') return { is: 'deleted' };
  if (data === undefined) return null;
  if (event === 'title') return { is: 'title', title: (JSON.parse(data) as { title: string }).title };
  if (event === 'turn-end') return { is: 'turn-end', end: JSON.parse(data) as TurnEnd };
  if (event !== undefined || id === undefined) return null;
  return { is: 'event', id, event: JSON.parse(data) as Event };
}

/** Opens the stream behind `after`. */
export type OpenStream = (after: string, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>;

/** Opens a session's events behind a place, on one connection. */
export async function openEvents(
  client: Client,
  session: string,
  { after, until, signal }: { readonly after: string; readonly until?: string | undefined; readonly signal: AbortSignal },
): Promise<ReadableStream<Uint8Array>> {
  const { data } = await client.GET('/v1/sessions/{session}/events', {
    params: {
      path: { session },
      query: until === undefined ? {} : { until },
      header: { 'Last-Event-ID': after },
    },
    headers: { accept: 'text/event-stream' },
    parseAs: 'stream',
    cache: 'no-store',
    signal,
  });
  if (data == null) throw new Unreachable('the answer has no body');
  return data;
}

export interface FollowOptions {
  readonly signal: AbortSignal;
  /** Whether an orderly end of a connection is the end of it all, unless the server asked to come again. */
  readonly ends?: boolean;
  readonly onState?: ((state: WatchState) => void) | undefined;
  readonly backoff?: Backoff;
  /** Aborted by a reader that does not want to wait for the next try; asked for anew before each wait. */
  readonly nudge?: () => AbortSignal;
}

/**
 * The frames of a stream over any number of connections, those that came together as one list.
 *
 * @throws Problem when it cannot go on.
 */
export async function* follow(
  open: OpenStream,
  after: string,
  options: FollowOptions,
): AsyncGenerator<readonly Frame[], void, undefined> {
  const { signal: life, ends = false, onState, backoff = new Backoff(), nudge } = options;
  let place = after;
  while (!life.aborted) {
    onState?.({ is: 'connecting' });
    let why: unknown;
    let again = !ends;
    try {
      for await (const frames of connection(open, place, life, () => onState?.({ is: 'live' }))) {
        backoff.reset();
        for (const frame of frames) {
          if (frame.id !== undefined) place = frame.id;
          if (frame.event === 'bye') again = true;
        }
        yield frames;
      }
      if (!again) return;
    } catch (error) {
      if (isOver(life)) return;
      if (!isPassing(error) && !(error instanceof Silent)) throw error;
      why = error;
    }
    if (isOver(life)) return;
    const asked = why instanceof Problem ? (why.retryAfter ?? 0) : 0;
    const wait = Math.max(asked, backoff.next());
    onState?.({ is: 'waiting', at: Date.now() + wait, why });
    await sleep(wait, nudge === undefined ? life : AbortSignal.any([life, nudge()]));
  }
}

async function* connection(
  open: OpenStream,
  after: string,
  life: AbortSignal,
  onLive: () => void,
): AsyncGenerator<readonly Frame[], void, undefined> {
  const silent = new AbortController();
  const over = new AbortController();
  const signal = AbortSignal.any([life, silent.signal, over.signal]);
  let timer = setTimeout(() => silent.abort(), SILENCE);
  try {
    const body = await open(after, signal);
    onLive();
    for await (const frames of framesOf(body)) {
      if (isOver(life)) return;
      clearTimeout(timer);
      // How long the reader takes says nothing about the connection.
      if (frames.length > 0) yield frames;
      timer = setTimeout(() => silent.abort(), SILENCE);
    }
  } catch (error) {
    if (silent.signal.aborted) throw new Silent();
    throw error instanceof Problem || error instanceof Unreachable ? error : new Unreachable(error);
  } finally {
    clearTimeout(timer);
    over.abort();
  }
}

/** Nothing came for too long, not even a comment. */
class Silent extends Error {
  override readonly name = 'Silent';

  constructor() {
    super('The connection fell silent.');
  }
}

export interface WatcherHandlers {
  /** Frames that came together, in order. */
  readonly onFrames: (frames: readonly Frame[]) => void;
  readonly onState: (state: WatchState) => void;
  /** The stream cannot go on: the session is gone, or the caller may not see it. */
  readonly onEnd: (why: unknown) => void;
}

/** A watch for those who are called instead of asking: a page, for instance. */
export class Watcher {
  readonly #life = new AbortController();
  #nudge = new AbortController();
  #after: string;

  constructor(
    private readonly open: OpenStream,
    after: string,
    private readonly handlers: WatcherHandlers,
  ) {
    this.#after = after;
    void this.#run();
  }

  /** The place behind the last frame. */
  get after(): string {
    return this.#after;
  }

  get closed(): boolean {
    return this.#life.signal.aborted;
  }

  close(): void {
    this.#life.abort();
  }

  /** Tries again now instead of waiting. */
  hurry(): void {
    this.#nudge.abort();
  }

  async #run(): Promise<void> {
    const following = follow(this.open, this.#after, {
      signal: this.#life.signal,
      onState: this.handlers.onState,
      nudge: () => (this.#nudge = new AbortController()).signal,
    });
    try {
      for await (const frames of following) {
        if (this.closed) return;
        for (const frame of frames) if (frame.id !== undefined) this.#after = frame.id;
        this.handlers.onFrames(frames);
      }
    } catch (why) {
      if (!this.closed) this.handlers.onEnd(why);
    }
  }
}

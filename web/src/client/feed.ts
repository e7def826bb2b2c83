/**
 * One session, kept true: loads it, follows its events, and carries what a person wants to the server. Whatever breaks
 * in between, what it holds is what the server stored, or it loads the session anew.
 */

import { Backoff, isOver, isPassing, Problem, sleep, toldBy, Watcher, type Frame, type WatchState } from '@turnbuckle/client';
import {
  foldSession,
  fromMessages,
  phaseOf,
  withEarlier,
  type Content,
  type Phase,
  type SessionFold,
} from '../fold';
import type { Api, Decision, Delivery, Session, SessionDetail } from './api';
import { keepUnsent, unsentOf } from './outbox';

/** A message on its way into the conversation. */
export interface Outgoing {
  readonly key: string;
  readonly content: Content;
  readonly delivery: Delivery;
  /** When it was sent last, in milliseconds since 1970. */
  readonly at: number;
  /** Absent until the server has taken it. */
  readonly turn: string | null;
  readonly error: unknown;
}

/** What a person said to a card, until the card itself says so. */
export interface Answering {
  /** `null` when it was made elsewhere and its kind is not known here. */
  readonly decision: Decision | null;
  readonly error: unknown;
}

export type Link =
  | { readonly is: 'loading' }
  | { readonly is: 'live' }
  | { readonly is: 'broken'; readonly since: number; readonly why: unknown }
  | { readonly is: 'failed'; readonly why: unknown }
  | { readonly is: 'deleted' };

export interface FeedState {
  readonly link: Link;
  readonly session: Session | null;
  readonly fold: SessionFold;
  /** Messages that have not entered the conversation yet, oldest first. */
  readonly outgoing: readonly Outgoing[];
  readonly answering: ReadonlyMap<string, Answering>;
  /** Where older messages are; `null` when there are none. */
  readonly earlier: string | null;
  readonly stopping: boolean;
  /** What was wanted last and did not come to be. */
  readonly refused: Refused | null;
}

export interface Refused {
  readonly what: 'stop' | 'rename';
  readonly why: unknown;
}

/** Messages to begin with, and of each earlier page. */
const MESSAGES = 100;
/** Loading anew helps when something was lost. When it does not, something else is wrong. */
const MOST_FAULTS = 4;
/** A browser has few connections to one server; a hidden page gives up its own after so long with nothing under way. */
const REST_AFTER = 60_000;

const nothing: FeedState = {
  link: { is: 'loading' },
  session: null,
  fold: fromMessages([], 0, null),
  outgoing: [],
  answering: new Map(),
  earlier: null,
  stopping: false,
  refused: null,
};

export class Feed {
  #state: FeedState;
  readonly #listeners = new Set<() => void>();
  #life: AbortController | null = null;
  #watch: Watcher | null = null;
  #drawing = false;
  /** How often in a row what came could not be taken in. */
  #faults = 0;
  #resting: ReturnType<typeof setTimeout> | null = null;
  #opened: ((after: string) => Watcher) | null = null;
  /** What an earlier page was sending, until this one sends it. */
  #left: readonly Outgoing[];

  constructor(
    readonly id: string,
    private readonly api: Api,
    /** Draws at the next frame; what comes before it is drawn with it. */
    private readonly schedule: (draw: () => void) => void = soon,
  ) {
    this.#left = unsentOf(id);
    this.#state = { ...nothing, outgoing: this.#left };
  }

  get state(): FeedState {
    return this.#state;
  }

  /** Follows the session for as long as somebody listens. */
  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) this.#open();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#close();
    };
  };

  getState = (): FeedState => this.#state;

  // ---- what a person wants ------------------------------------------------------------------

  /** Submits a message. It shows at once; when it cannot be delivered it stays, with its error. */
  send(content: Content, delivery: Delivery): void {
    const key = crypto.randomUUID();
    const outgoing: Outgoing = { key, content, delivery, at: Date.now(), turn: null, error: null };
    this.#set({ outgoing: [...this.#state.outgoing, outgoing] });
    void this.#deliver(outgoing);
  }

  /** Tries again to submit a message; under the same key, so it is taken once. */
  resend(key: string): void {
    const outgoing = this.#state.outgoing.find((o) => o.key === key);
    if (outgoing === undefined) return;
    this.#change(key, { error: null, at: Date.now() });
    void this.#deliver(outgoing);
  }

  /** Gives up a message that could not be submitted. */
  discard(key: string): Outgoing | null {
    const found = this.#state.outgoing.find((o) => o.key === key) ?? null;
    this.#set({ outgoing: this.#state.outgoing.filter((o) => o.key !== key) });
    return found;
  }

  async decide(card: string, decision: Decision): Promise<void> {
    const put = (answering: Answering | null) => {
      const all = new Map(this.#state.answering);
      if (answering === null) all.delete(card);
      else all.set(card, answering);
      this.#set({ answering: all });
    };
    put({ decision, error: null });
    try {
      await this.api.decide(card, decision, crypto.randomUUID());
    } catch (error) {
      // Somebody was quicker: the card is about to say so.
      if (error instanceof Problem && error.code === 'already_decided') put(null);
      else put({ decision, error });
    }
  }

  async stop(): Promise<void> {
    this.#set({ stopping: true, refused: null });
    try {
      await this.api.stop(this.id);
    } catch (why) {
      this.#set({ stopping: false, refused: { what: 'stop', why } });
    }
  }

  /** Shows the title at once, and takes it back when the server does not take it. */
  async rename(title: string): Promise<void> {
    const before = this.#state.fold.title;
    this.#set({ fold: { ...this.#state.fold, title }, refused: null });
    try {
      const { title: now } = await this.api.rename(this.id, title);
      this.#set({ fold: { ...this.#state.fold, title: now ?? title } });
    } catch (why) {
      this.#set({ fold: { ...this.#state.fold, title: before }, refused: { what: 'rename', why } });
    }
  }

  /** Another part of the page has changed the title. */
  retitle(title: string | null): void {
    this.#set({ fold: { ...this.#state.fold, title } });
  }

  /** The person has read what was refused. */
  dismiss(): void {
    this.#set({ refused: null });
  }

  /** Loads the messages before the first one. */
  async loadEarlier(): Promise<void> {
    const { earlier } = this.#state;
    if (earlier === null) return;
    const page = await this.api.messages(this.id, earlier, MESSAGES);
    if (this.#state.earlier !== earlier) return;
    const fold = withEarlier(this.#state.fold, page.items);
    this.#set({ fold, earlier: page.next ?? null });
  }

  /** Tries again now what is waiting for its next try. */
  hurry(): void {
    if (this.#state.link.is === 'failed') {
      this.#faults = 0;
      this.#set({ link: { is: 'loading' } });
      this.#reload();
    } else {
      this.#watch?.hurry();
    }
  }

  // ---- keeping up ---------------------------------------------------------------------------

  #open(): void {
    this.#life = new AbortController();
    const { signal } = this.#life;
    window.addEventListener('online', () => this.#watch?.hurry(), { signal });
    document.addEventListener('visibilitychange', () => this.#seen(), { signal });
    void this.#load(signal);
    void this.#deliverLeft();
  }

  #close(): void {
    this.#life?.abort();
    this.#life = null;
    this.#watch?.close();
    this.#watch = null;
    this.#opened = null;
    if (this.#resting !== null) clearTimeout(this.#resting);
    this.#resting = null;
  }

  #seen(): void {
    if (this.#resting !== null) clearTimeout(this.#resting);
    this.#resting = null;
    if (document.hidden) {
      this.#resting = setTimeout(() => this.#rest(), REST_AFTER);
    } else if (this.#watch?.closed === true) {
      this.#watch = this.#opened?.(this.#watch.after) ?? null;
    } else {
      this.#watch?.hurry();
    }
  }

  #rest(): void {
    const { session, outgoing } = this.#state;
    if (session?.status === 'idle' && outgoing.length === 0) this.#watch?.close();
    else this.#resting = setTimeout(() => this.#rest(), REST_AFTER);
  }

  #reload(): void {
    this.#close();
    if (this.#listeners.size > 0) this.#open();
  }

  async #load(life: AbortSignal): Promise<void> {
    const backoff = new Backoff();
    while (!life.aborted) {
      try {
        const detail = await this.api.session(this.id, MESSAGES, life);
        if (!isOver(life)) this.#begin(detail, life);
        return;
      } catch (why) {
        if (isOver(life)) return;
        if (!isPassing(why)) {
          const gone = why instanceof Problem && why.status === 404 && this.#state.session !== null;
          this.#set({ link: gone ? { is: 'deleted' } : { is: 'failed', why } });
          return;
        }
        this.#set({ link: { is: 'broken', since: Date.now(), why } });
        await sleep(backoff.next(), life);
      }
    }
  }

  #begin(detail: SessionDetail, life: AbortSignal): void {
    const { session, messages, after, earlier, queued } = detail;
    const fold = fromMessages(messages, seqOf(after), session.title ?? null);
    const theirs = queued.flatMap((q): Outgoing[] =>
      q.kind === 'message'
        ? [{ key: q.turn, content: q.content, delivery: q.delivery, at: Date.parse(q.at), turn: q.turn, error: null }]
        : [],
    );
    const stopping = queued.some((q) => q.kind === 'stop');
    const answering = new Map(this.#state.answering);
    for (const q of queued) {
      if (q.kind !== 'decision' && q.kind !== 'tool_result') continue;
      if (!answering.has(q.approval)) answering.set(q.approval, { decision: null, error: null });
    }
    this.#set({
      session,
      fold,
      earlier: earlier ?? null,
      // What this page sent and the server has not told of may still be under way.
      outgoing: [...theirs, ...this.#state.outgoing],
      answering,
      stopping,
    });
    const open = (place: string, signal: AbortSignal) => this.api.events(this.id, place, signal);
    this.#opened = (place) =>
      new Watcher(open, place, {
        onFrames: (frames) => {
          if (!life.aborted) this.#take(frames);
        },
        onState: (state) => {
          if (!life.aborted) this.#linked(state);
        },
        onEnd: (why) => {
          if (life.aborted) return;
          const gone = why instanceof Problem && why.status === 404;
          this.#set({ link: gone ? { is: 'deleted' } : { is: 'failed', why } });
        },
      });
    this.#watch = this.#opened(after);
  }

  #linked(state: WatchState): void {
    const { link } = this.#state;
    if (state.is === 'live') this.#set({ link: { is: 'live' } });
    else if (state.is === 'waiting' && state.why !== undefined) {
      const since = link.is === 'broken' ? link.since : Date.now();
      this.#set({ link: { is: 'broken', since, why: state.why } });
    }
  }

  #take(frames: readonly Frame[]): void {
    let { fold, session } = this.#state;
    try {
      for (const frame of frames) {
        const told = toldBy(frame);
        if (told?.is === 'deleted') {
          this.#close();
          this.#set({ link: { is: 'deleted' } });
          return;
        }
        if (told?.is === 'title') fold = { ...fold, title: told.title };
        if (told?.is === 'event') fold = foldSession(fold, told.event);
      }
    } catch (why) {
      // Something was lost, or what was held is void. What the server stored is the truth.
      this.#faults += 1;
      if (this.#faults <= MOST_FAULTS) {
        this.#reload();
      } else {
        this.#close();
        this.#set({ link: { is: 'failed', why } });
      }
      return;
    }
    if (frames.some((frame) => frame.event === 'turn-end')) this.#faults = 0;
    if (session !== null) {
      const status: Phase = phaseOf(fold);
      if (status !== session.status) session = { ...session, status };
    }
    this.#set({ fold, session }, 'frame');
  }

  /** In the order in which they were sent. */
  async #deliverLeft(): Promise<void> {
    const left = this.#left;
    this.#left = [];
    for (const outgoing of left) if (outgoing.error === null) await this.#deliver(outgoing);
  }

  async #deliver(outgoing: Outgoing): Promise<void> {
    const { key, content, delivery } = outgoing;
    try {
      const { turn } = await this.api.submit(this.id, content, delivery, key);
      this.#change(key, { turn });
    } catch (error) {
      this.#change(key, { error });
    }
  }

  #change(key: string, change: Partial<Outgoing>): void {
    const outgoing = this.#state.outgoing.map((o) => (o.key === key ? { ...o, ...change } : o));
    this.#set({ outgoing });
  }

  #set(change: Partial<FeedState>, when: 'now' | 'frame' = 'now'): void {
    const { outgoing } = this.#state;
    this.#state = settle({ ...this.#state, ...change });
    if (this.#state.outgoing !== outgoing) keepUnsent(this.id, this.#state.outgoing);
    if (when === 'now') this.#draw();
    else if (!this.#drawing) {
      this.#drawing = true;
      this.schedule(() => {
        if (this.#drawing) this.#draw();
      });
    }
  }

  #draw(): void {
    this.#drawing = false;
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Drops what has arrived: messages that entered the conversation, answers that the cards show, stops that took effect. */
function settle(state: FeedState): FeedState {
  const { fold } = state;
  const outgoing = state.outgoing.filter((o, i) => !hasEntered(fold, o) && !isToldBefore(state.outgoing, i));
  const answering = new Map(
    [...state.answering].filter(([card]) => {
      const found = cardOf(fold, card);
      return found === undefined || found === 'pending';
    }),
  );
  const stopping = state.stopping && phaseOf(fold) !== 'idle';
  return {
    ...state,
    stopping,
    outgoing: outgoing.length === state.outgoing.length ? state.outgoing : outgoing,
    answering: answering.size === state.answering.size ? state.answering : answering,
  };
}

function hasEntered(fold: SessionFold, { turn }: Outgoing): boolean {
  if (turn === null) return false;
  return fold.turns.some(
    (t) =>
      (t.id === turn && t.fold.user !== null) ||
      // A steering message enters the turn that runs; its id is derived from the turn it would have opened.
      t.fold.assistant?.parts.some((p) => p.type === 'input' && p.message === `${turn}-u`),
  );
}

/** A message whose submission was not answered may be known from the server by the time its answer comes. */
function isToldBefore(outgoing: readonly Outgoing[], i: number): boolean {
  const turn = outgoing[i]?.turn ?? null;
  return turn !== null && outgoing.findIndex((o) => o.turn === turn) < i;
}

function cardOf(fold: SessionFold, id: string): string | undefined {
  for (const turn of fold.turns) {
    const card = turn.fold.cards.find((c) => c.id === id);
    if (card?.body.kind === 'approval') return card.body.status;
  }
  return undefined;
}

/** The number in a place of the stream, `118` or `118.2`. */
function seqOf(after: string): number {
  return Number.parseInt(after, 10);
}

/** At the next frame; soon all the same when the page is hidden and draws none. */
function soon(draw: () => void): void {
  requestAnimationFrame(draw);
  setTimeout(draw, 200);
}

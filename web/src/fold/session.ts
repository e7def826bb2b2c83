/**
 * A whole session as a reader holds it: what the server gave to begin with, and every event since. Pure: the same
 * snapshot and events give the same state, so a reload shows what was there.
 */

import { emptyTurn, foldTurn, type TurnFold } from './turn';
import type { Event, Json, Message, ModelError, Outcome, SystemMessage } from '@turnbuckle/client/events';

/** Something that happened in a turn and is part of no message. */
export type TurnNote =
  | { readonly kind: 'compacted'; readonly note: string; readonly before: number; readonly after: number }
  | { readonly kind: 'replaced'; readonly from: string; readonly to: string; readonly reason: string }
  | { readonly kind: 'overflowed'; readonly cap: number }
  | { readonly kind: 'task'; readonly call: string; readonly task: string; readonly reference: string };

/** A model call that is about to be made again. */
export interface Retry {
  readonly attempt: number;
  readonly delayMs: number;
  readonly error: ModelError;
}

export interface TurnState {
  readonly id: string;
  readonly fold: TurnFold;
  /** Messages of the product that are no cards. */
  readonly others: readonly SystemMessage[];
  readonly notes: readonly TurnNote[];
  /** The retry under way; anything that streams ends it. */
  readonly retry: Retry | null;
}

export interface SessionFold {
  /** The number of the last event taken in. */
  readonly seq: number;
  /** Epochs of the turns that were taken up again after a crash. */
  readonly epochs: Readonly<Record<string, number>>;
  readonly turns: readonly TurnState[];
  readonly title: string | null;
  /** The plan, if one was told of since the snapshot. */
  readonly plan: Json | null;
}

/** What came is not what comes next: something was lost, or what is held is void. Load the session anew. */
export class OutOfStep extends Error {
  override readonly name = 'OutOfStep';
}

const newTurn = (id: string): TurnState => ({
  id,
  fold: emptyTurn,
  others: [],
  notes: [],
  retry: null,
});

/** The state a snapshot gives; `seq` is the last event that its messages contain. */
export function fromMessages(
  messages: readonly Message[],
  seq: number,
  title: string | null,
): SessionFold {
  return { seq, epochs: {}, turns: turnsOf(messages), title, plan: null };
}

/** Puts messages of an earlier page in front. */
export function withEarlier(session: SessionFold, messages: readonly Message[]): SessionFold {
  const earlier = turnsOf(messages);
  const last = earlier.at(-1);
  const first = session.turns[0];
  // A page may begin within a turn.
  if (first !== undefined && last?.id === first.id) {
    const joined: TurnState = {
      ...first,
      fold: {
        user: last.fold.user ?? first.fold.user,
        assistant: first.fold.assistant ?? last.fold.assistant,
        cards: [...last.fold.cards, ...first.fold.cards],
      },
      others: [...last.others, ...first.others],
    };
    return { ...session, turns: [...earlier.slice(0, -1), joined, ...session.turns.slice(1)] };
  }
  return { ...session, turns: [...earlier, ...session.turns] };
}

function turnsOf(messages: readonly Message[]): readonly TurnState[] {
  const turns = new Map<string, TurnState>();
  for (const stored of messages) {
    const turn = turns.get(stored.turn) ?? newTurn(stored.turn);
    turns.set(stored.turn, withMessage(turn, stored));
  }
  return [...turns.values()];
}

function withMessage(turn: TurnState, stored: Message): TurnState {
  const { role: _, ...message } = stored;
  switch (stored.role) {
    case 'user':
      return { ...turn, fold: { ...turn.fold, user: message as TurnFold['user'] } };
    case 'assistant':
      return { ...turn, fold: { ...turn.fold, assistant: message as TurnFold['assistant'] } };
    case 'system': {
      const system = message as SystemMessage;
      return system.body.kind === 'approval'
        ? { ...turn, fold: { ...turn.fold, cards: [...turn.fold.cards, system] } }
        : { ...turn, others: [...turn.others, system] };
    }
  }
}

/**
 * Takes in one event. An event that is known already changes nothing.
 * @throws OutOfStep when an event is missing before it, or it voids what was taken in before.
 * @throws FoldError when it does not fit the messages.
 */
export function foldSession(session: SessionFold, event: Event): SessionFold {
  const epoch = event.epoch ?? 0;
  const known = session.epochs[event.turn] ?? 0;
  if (event.seq <= session.seq) {
    const fresh = epoch > known || (event.type === 'turn-started' && !hasTurn(session, event.turn));
    if (fresh) throw new OutOfStep(`event ${event.seq} voids what came after it`);
    return session;
  }
  if (event.seq > session.seq + 1) {
    throw new OutOfStep(`event ${event.seq} follows event ${session.seq}`);
  }
  if (epoch < known) {
    throw new OutOfStep(`event ${event.seq} is of an epoch that is over`);
  }
  const epochs = epoch === known ? session.epochs : { ...session.epochs, [event.turn]: epoch };
  const next = { ...session, seq: event.seq, epochs };
  switch (event.type) {
    case 'session-title-updated':
      return { ...next, title: event.title };
    case 'plan-updated':
      return { ...next, plan: event.plan, turns: inTurn(session, event) };
    default:
      return { ...next, turns: inTurn(session, event) };
  }
}

function hasTurn(session: SessionFold, id: string): boolean {
  return session.turns.some((turn) => turn.id === id);
}

function inTurn(session: SessionFold, event: Event): readonly TurnState[] {
  const at = session.turns.findLastIndex((turn) => turn.id === event.turn);
  const found = session.turns[at];
  if (found === undefined) return [...session.turns, step(newTurn(event.turn), event)];
  // A running turn is told from its start again after a reload.
  const turn = event.type === 'turn-started' ? newTurn(event.turn) : found;
  const changed = step(turn, event);
  return changed === found ? session.turns : session.turns.with(at, changed);
}

function step(turn: TurnState, event: Event): TurnState {
  const fold = foldTurn(turn.fold, event);
  switch (event.type) {
    case 'context-compacted': {
      const { note, before, after } = event;
      return { ...turn, fold, notes: [...turn.notes, { kind: 'compacted', note, before, after }] };
    }
    case 'context-overflowed':
      return { ...turn, fold, notes: [...turn.notes, { kind: 'overflowed', cap: event.cap }] };
    case 'model-replaced': {
      const { from, to, reason } = event;
      return { ...turn, fold, notes: [...turn.notes, { kind: 'replaced', from, to, reason }] };
    }
    case 'task-started': {
      const { call, task, reference } = event;
      return { ...turn, fold, notes: [...turn.notes, { kind: 'task', call, task, reference }] };
    }
    case 'model-retry': {
      const { attempt, delay_ms: delayMs, error } = event;
      return { ...turn, fold, retry: { attempt, delayMs, error } };
    }
    case 'parts-discarded':
      return { ...turn, fold };
    default:
      if (fold === turn.fold && turn.retry === null) return turn;
      return { ...turn, fold, retry: null };
  }
}

/** How a turn ended; `null` while it runs or waits. */
export function outcomeOf(turn: TurnState): Outcome | null {
  const state = turn.fold.assistant?.state;
  return state?.state === 'finished' ? state.outcome : null;
}

/** What the session is doing. */
export type Phase = 'idle' | 'running' | 'paused';

export function phaseOf(session: SessionFold): Phase {
  const last = session.turns.at(-1);
  if (last === undefined) return 'idle';
  const state = last.fold.assistant?.state.state;
  if (state === undefined) return last.fold.user === null ? 'idle' : 'running';
  return state === 'finished' ? 'idle' : state;
}

/** The cards of a turn that nobody has decided. */
export function pendingCards(turn: TurnState): readonly SystemMessage[] {
  return turn.fold.cards.filter(
    (card) => card.body.kind === 'approval' && card.body.status === 'pending',
  );
}

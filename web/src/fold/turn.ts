/**
 * The one reducer of a turn: its events in, its stored messages out. It follows `turnbuckle-core`'s `fold.rs` rule for
 * rule, so that what a reader shows is what is stored.
 *
 * States are immutable and share what did not change; a component may compare them by identity.
 */

import { sameJson } from './equal';
import type {
  AssistantMessage,
  CallResult,
  Event,
  IterationUsage,
  Part,
  SystemMessage,
  TextPart,
  ThinkingPart,
  Timestamp,
  ToolCallPart,
  ToolCallStatus,
  ToolErrorCode,
  UserMessage,
} from '@turnbuckle/client/events';
import { afterBytes, byteLength } from './utf8';

/** The messages of one turn, as far as its events tell. */
export interface TurnFold {
  readonly user: UserMessage | null;
  readonly assistant: AssistantMessage | null;
  readonly cards: readonly SystemMessage[];
}

export const emptyTurn: TurnFold = { user: null, assistant: null, cards: [] };

/** An event that does not fit what came before: read the messages anew. */
export class FoldError extends Error {
  override readonly name = 'FoldError';
}

/**
 * Applies one event.
 * @throws FoldError when it names a message or part that is not there, or leaves a gap.
 */
export function foldTurn(turn: TurnFold, event: Event): TurnFold {
  switch (event.type) {
    case 'turn-started':
      return { ...turn, user: event.message };
    case 'assistant-message-started': {
      const { call, message: child } = event;
      return call === undefined
        ? { ...turn, assistant: child }
        : withRoot(turn, (root) => {
            return changeCall(root, call, (part) => ({ ...part, child }));
          });
    }
    case 'text-delta':
    case 'thinking-delta': {
      const type = event.type === 'text-delta' ? 'text' : 'thinking';
      return inParts(turn, event.message, (parts) =>
        append(parts, event.part, event.offset, event.text, {
          type,
          iteration: event.iteration,
          text: event.text,
        }),
      );
    }
    case 'part-native':
      return inPart(turn, event.message, event.part, (part) => {
        if (part.type === 'input') throw lost('native part', event.part);
        return { ...part, native: event.native };
      });
    case 'part-added':
      return inParts(turn, event.message, (parts) => {
        if (event.part > parts.length) throw lost('place for part', event.part);
        return parts.toSpliced(event.part, 0, event.value);
      });
    case 'result-dropped':
      return inCall(turn, event.message, event.part, (call) =>
        without(call, 'output', 'model_view', 'progress'),
      );
    case 'text-replaced':
      return inPart(turn, event.message, event.part, (part) => {
        if (!isText(part)) throw lost('text part', event.part);
        return { ...part, text: event.text };
      });
    case 'part-dropped':
      return inMessage(turn, event.message, (message) => {
        const part = message.parts[event.part];
        if (part === undefined) throw lost('part', event.part);
        const parts = message.parts.toSpliced(event.part, 1);
        if (part.type !== 'tool_call' || part.child === undefined) return { ...message, parts };
        // What the nested turn has used stays on the message that the call is dropped from.
        const iterations = [...message.iterations, ...allIterations(part.child)];
        return { ...message, parts, iterations };
      });
    case 'parts-discarded':
      return inParts(turn, event.message, (parts) => parts.slice(0, event.keep));
    case 'tool-call-started':
      return inParts(turn, event.message, (parts) => {
        if (event.part !== parts.length) {
          throw new FoldError(`part ${event.part} follows ${parts.length} parts`);
        }
        const call: ToolCallPart = {
          type: 'tool_call',
          iteration: event.iteration,
          id: event.call,
          wire_id: event.wire_id,
          name: event.name,
          arguments: '',
          status: 'running',
        };
        return [...parts, call];
      });
    case 'tool-call-args-delta':
      return inCall(turn, event.message, event.part, (call) => {
        const grown = extend(call, call.arguments, event.offset, event.text);
        return grown === undefined ? call : remember({ ...call, arguments: grown.text }, grown);
      });
    case 'tool-call-progress':
      return inCall(turn, event.message, event.part, (call) => ({
        ...call,
        progress: [...(call.progress ?? []), { at: event.at, data: event.data }],
      }));
    case 'tool-call-status':
      return inCall(turn, event.message, event.part, (call) => ({
        ...call,
        ...present('args', event.args),
        ...present('amendment', event.amendment),
        ...(event.status === 'running' ? { started_at: event.at } : {}),
        status: event.status === 'awaiting_approval' ? 'awaiting_approval' : 'running',
      }));
    case 'tool-call-completed':
      return inCall(turn, event.message, event.part, (call) => complete(call, event.at, event));
    case 'tool-call-failed':
      return inCall(turn, event.message, event.part, (call) => ({
        ...without(call, 'output'),
        ...present('output', event.output),
        status: statusOf(event.error.code),
        error: event.error,
        ended_at: event.at,
      }));
    case 'approval-required':
    case 'client-tool-required':
      return { ...turn, cards: [...turn.cards, event.card] };
    case 'approval-decided': {
      const at = turn.cards.findIndex((card) => card.id === event.card);
      const card = turn.cards[at];
      if (card === undefined) throw lost('card', event.card);
      if (card.body.kind !== 'approval') return turn;
      const body = { ...card.body, status: event.status, decided: event.decided };
      return { ...turn, cards: turn.cards.with(at, { ...card, body }) };
    }
    case 'assistant-message-paused':
      return inMessage(turn, event.message, (m) => ({ ...m, state: { state: 'paused' } }));
    case 'assistant-message-resumed':
      return inMessage(turn, event.message, (m) => ({
        ...m,
        state: { state: 'running' },
        parts: m.parts.slice(0, event.parts),
      }));
    case 'usage':
      return inMessage(turn, event.message, (m) => ({
        ...m,
        iterations: [...m.iterations, event.call],
      }));
    case 'link-snapshots':
      return inMessage(turn, event.message, (m) => {
        const rest = without(m, 'link_snapshots');
        const some = Object.keys(event.snapshots).length > 0;
        return some ? { ...rest, link_snapshots: event.snapshots } : rest;
      });
    case 'assistant-message-finished':
      return inMessage(turn, event.message.id, (m) => {
        const mine = { ...m, state: event.message.state };
        if (!sameJson(mine, event.message)) {
          throw new FoldError(`message ${event.message.id} differs from its final form`);
        }
        return mine;
      });
    case 'agent-started':
    case 'route-selected':
    case 'context-compacted':
    case 'context-overflowed':
    case 'plan-updated':
    case 'task-started':
    case 'model-replaced':
    case 'model-retry':
    case 'agent-completed':
    case 'turn-completed':
    case 'turn-paused':
    case 'turn-exhausted':
    case 'turn-error':
    case 'turn-aborted':
    case 'session-title-updated':
      return turn;
    default:
      // A newer server may speak of things this reader does not know; they change no message it can show.
      return turn;
  }
}

/** Every model call of a message, those of nested turns after its own. */
function allIterations(message: AssistantMessage): readonly IterationUsage[] {
  const nested = message.parts.flatMap((part) =>
    part.type === 'tool_call' && part.child !== undefined ? allIterations(part.child) : [],
  );
  return [...message.iterations, ...nested];
}

function lost(what: string, id: string | number): FoldError {
  return new FoldError(`there is no ${what} ${id}`);
}

function withRoot(turn: TurnFold, change: (root: AssistantMessage) => AssistantMessage): TurnFold {
  if (turn.assistant === null) throw new FoldError('the turn has no assistant message yet');
  const assistant = change(turn.assistant);
  return assistant === turn.assistant ? turn : { ...turn, assistant };
}

type Change<T> = (value: T) => T;

function inMessage(turn: TurnFold, id: string, change: Change<AssistantMessage>): TurnFold {
  return withRoot(turn, (root) => {
    const changed = changeMessage(root, id, change);
    if (changed === undefined) throw lost('message', id);
    return changed;
  });
}

/** The tree with the message `id` changed; `undefined` when it is not there. */
function changeMessage(
  message: AssistantMessage,
  id: string,
  change: Change<AssistantMessage>,
): AssistantMessage | undefined {
  if (message.id === id) return change(message);
  for (const [index, part] of message.parts.entries()) {
    if (part.type !== 'tool_call' || part.child === undefined) continue;
    const child = changeMessage(part.child, id, change);
    if (child === part.child) return message;
    if (child !== undefined) {
      return { ...message, parts: message.parts.with(index, { ...part, child }) };
    }
  }
  return undefined;
}

function changeCall(
  root: AssistantMessage,
  id: string,
  change: Change<ToolCallPart>,
): AssistantMessage {
  const changed = tryChangeCall(root, id, change);
  if (changed === undefined) throw lost('call', id);
  return changed;
}

function tryChangeCall(
  message: AssistantMessage,
  id: string,
  change: Change<ToolCallPart>,
): AssistantMessage | undefined {
  for (const [index, part] of message.parts.entries()) {
    if (part.type !== 'tool_call') continue;
    if (part.id === id) return { ...message, parts: message.parts.with(index, change(part)) };
    const child = part.child && tryChangeCall(part.child, id, change);
    if (child !== undefined) {
      return { ...message, parts: message.parts.with(index, { ...part, child }) };
    }
  }
  return undefined;
}

function inParts(turn: TurnFold, id: string, change: Change<readonly Part[]>): TurnFold {
  return inMessage(turn, id, (message) => {
    const parts = change(message.parts);
    return parts === message.parts ? message : { ...message, parts };
  });
}

function inPart(turn: TurnFold, id: string, index: number, change: Change<Part>): TurnFold {
  return inParts(turn, id, (parts) => {
    const part = parts[index];
    if (part === undefined) throw lost('part', index);
    const changed = change(part);
    return changed === part ? parts : parts.with(index, changed);
  });
}

function inCall(turn: TurnFold, id: string, index: number, change: Change<ToolCallPart>): TurnFold {
  return inPart(turn, id, index, (part) => {
    if (part.type !== 'tool_call') throw lost('tool call', index);
    return change(part);
  });
}

function isText(part: Part): part is TextPart | ThinkingPart {
  return part.type === 'text' || part.type === 'thinking';
}

function append(
  parts: readonly Part[],
  index: number,
  offset: number,
  text: string,
  first: TextPart | ThinkingPart,
): readonly Part[] {
  if (offset === 0 && parts.length === index) {
    return [...parts, remember(first, { text, bytes: byteLength(text) })];
  }
  const part = parts[index];
  if (part === undefined) throw lost('part', index);
  if (!isText(part)) throw lost('text part', index);
  const grown = extend(part, part.text, offset, text);
  if (grown === undefined) return parts;
  return parts.with(index, remember({ ...part, text: grown.text }, grown));
}

interface Grown {
  readonly text: string;
  readonly bytes: number;
}

/** Bytes of the growing text of a part, so that a delta costs what it adds and not what is there already. */
const lengths = new WeakMap<Part, number>();

function remember<P extends Part>(part: P, grown: Grown): P {
  lengths.set(part, grown.bytes);
  return part;
}

/** The text with `piece` at `offset`; `undefined` when all of it is there already, so that a repeated delta does no harm. */
function extend(part: Part, text: string, offset: number, piece: string): Grown | undefined {
  const bytes = lengths.get(part) ?? byteLength(text);
  const known = bytes - offset;
  if (known < 0) throw new FoldError(`a delta at ${offset} follows ${bytes} bytes`);
  const fresh = known === 0 ? piece : afterBytes(piece, known);
  if (fresh === undefined) {
    throw new FoldError(`a delta at ${offset} overlaps within a character`);
  }
  return fresh === '' ? undefined : { text: text + fresh, bytes: bytes + byteLength(fresh) };
}

function complete(call: ToolCallPart, at: Timestamp, result: CallResult): ToolCallPart {
  return {
    ...without(call, 'model_view', 'summary', 'digest', 'captured', 'cached'),
    status: 'completed',
    output: result.output,
    ...present('model_view', result.model_view),
    ...present('summary', result.summary),
    ...present('digest', result.digest),
    ...(result.captured === true ? { captured: true } : {}),
    ...(result.cached === true ? { cached: true } : {}),
    ended_at: at,
  };
}

function statusOf(code: ToolErrorCode): ToolCallStatus {
  switch (code) {
    case 'rejected':
    case 'superseded':
    case 'expired':
      return 'rejected';
    case 'cancelled':
      return 'cancelled';
    default:
      return 'error';
  }
}

/** `{[key]: value}` unless the value is absent; `null` is a value. */
function present<K extends string, V>(key: K, value: V | undefined): Partial<Record<K, V>> {
  return value === undefined ? {} : ({ [key]: value } as Record<K, V>);
}

function without<T extends object, K extends keyof T>(value: T, ...keys: readonly K[]): Omit<T, K> {
  const dropped: readonly PropertyKey[] = keys;
  return Object.fromEntries(Object.entries(value).filter(([key]) => !dropped.includes(key))) as Omit<T, K>;
}

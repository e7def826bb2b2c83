/** What things are called before people. */

import { isObject, plain, wordsOf } from '../markdown/record';
import type {
  AssistantMessage,
  ExhaustedReason,
  Json,
  ModelErrorKind,
  Outcome,
  ToolCallPart,
  ToolErrorCode,
} from '../fold';

/** A time span in the shortest useful form. */
export function duration(ms: number): string {
  if (ms < 950) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  const rest = Math.round(seconds) % 60;
  if (minutes < 60) return rest === 0 ? `${minutes} min` : `${minutes} min ${rest} s`;
  const hours = Math.floor(minutes / 60);
  return `${hours} h ${minutes % 60} min`;
}

/** 1234 as `1,234`, 45678 as `45.7k`. */
export function count(n: number): string {
  if (n < 10_000) return n.toLocaleString('en');
  if (n < 1_000_000) return `${trim(n / 1000)}k`;
  return `${trim(n / 1_000_000)}M`;
}

function trim(n: number): string {
  return n >= 100 ? n.toFixed(0) : n.toFixed(1).replace(/\.0$/, '');
}

/** Millionths of a dollar as dollars. */
export function money(micros: number): string {
  const dollars = micros / 1_000_000;
  if (micros === 0) return '$0';
  if (dollars < 0.0001) return '< $0.0001';
  return `$${dollars.toFixed(dollars < 0.01 ? 4 : dollars < 1 ? 3 : 2)}`;
}

/** A digest or small value in one line. */
export function oneLine(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  if (!isObject(value)) return squeeze(plain(value) ?? '');
  const { count: counted, samples } = value;
  if (typeof counted === 'number') {
    const names = Array.isArray(samples) ? (samples as readonly Json[]).map(plain).filter((s) => s !== null) : [];
    return squeeze([counted === 0 ? 'none' : String(counted), ...names].join(' · '));
  }
  const facts = Object.entries(value).flatMap(([key, item]) => {
    const text = plain(item);
    return text === null ? [] : [`${wordsOf(key).toLowerCase()}: ${text}`];
  });
  return squeeze(facts.join(' · '));
}

function squeeze(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}

/** A tool's name for people, where the server gave none. */
export function toolTitle(name: string): string {
  return wordsOf(name.replace(/^mcp__[^_]+__/, ''));
}

/** How long a call executed; `null` before it began. */
export function callTime(call: ToolCallPart, now: number): number | null {
  if (call.started_at === undefined) return null;
  const from = Date.parse(call.started_at);
  const to = call.ended_at === undefined ? now : Date.parse(call.ended_at);
  return Math.max(0, to - from);
}

export const toolErrors: Readonly<Record<ToolErrorCode, string>> = {
  unknown_tool: 'no such tool',
  not_advertised: 'not offered here',
  not_enabled: 'switched off',
  unparsed_arguments: 'arguments could not be read',
  truncated_arguments: 'arguments were cut off',
  invalid_arguments: 'arguments do not fit',
  denied: 'forbidden by policy',
  failed: 'failed',
  timeout: 'took too long',
  panicked: 'broke down',
  cancelled: 'stopped',
  outcome_unknown: 'outcome unknown',
  rejected: 'rejected',
  superseded: 'superseded by a newer message',
  expired: 'nobody decided in time',
  budget: 'over the budget',
};

export interface OutcomeWords {
  readonly tone: 'bad' | 'warn' | 'calm';
  readonly title: string;
  readonly detail: string | null;
  /** What one can do about it. */
  readonly way: string | null;
  /** What the button that leads out says, and what it sends. */
  readonly action: { readonly label: string; readonly sends: 'again' | 'continue' } | null;
}

const again = { label: 'Try again', sends: 'again' } as const;
const goOn = { label: 'Continue', sends: 'continue' } as const;

/** What to say of a turn's end; `null` when all is well. */
export function outcomeWords(outcome: Outcome): OutcomeWords | null {
  switch (outcome.status) {
    case 'completed':
    case 'paused':
      return null;
    case 'aborted':
      return outcome.reason === 'stopped'
        ? { tone: 'calm', title: 'Stopped', detail: 'What was done up to here is kept.', way: null, action: again }
        : {
            tone: 'calm',
            title: 'Superseded',
            detail: 'A newer message took the place of the pending decision.',
            way: null,
            action: null,
          };
    case 'exhausted':
      return { tone: 'warn', way: null, action: goOn, ...exhausted[outcome.reason] };
    case 'error': {
      const { error } = outcome;
      switch (error.code) {
        case 'model': {
          const status = error.status === undefined ? '' : `HTTP ${error.status}: `;
          return {
            tone: 'bad',
            title: modelErrors[error.kind].title,
            detail: `${status}${error.message}`,
            way: modelErrors[error.kind].way,
            action: again,
          };
        }
        case 'empty_response':
          return {
            tone: 'bad',
            title: 'The model gave no answer',
            detail: 'It was asked several times.',
            way: 'Try again, or say it another way.',
            action: again,
          };
        case 'invalid_output':
          return {
            tone: 'bad',
            title: 'The answer does not have the form that was asked for',
            detail: error.message,
            way: null,
            action: again,
          };
        case 'context_overflow':
          return {
            tone: 'bad',
            title: 'The conversation is too long for the model',
            detail: error.message,
            way: 'Begin a new chat, or choose a model with a larger window.',
            action: null,
          };
        case 'store':
          return {
            tone: 'bad',
            title: 'The answer could not be stored',
            detail: error.message,
            way: 'What was stored before is kept. Try again in a moment.',
            action: again,
          };
        case 'internal':
          return {
            tone: 'bad',
            title: 'Something broke inside',
            detail: error.message,
            way: 'This is a defect; the server’s log has more about it.',
            action: again,
          };
      }
    }
  }
}

const exhausted: Readonly<Record<ExhaustedReason, { readonly title: string; readonly detail: string }>> = {
  'token-budget': { title: 'Token budget used up', detail: 'The turn ended at its limit of tokens.' },
  'max-iterations': { title: 'Limit of model calls reached', detail: 'The turn took more steps than it may.' },
  'max-approvals': { title: 'Limit of approvals reached', detail: 'The turn asked more often than it may.' },
  'max-tool-calls': { title: 'Limit of tool calls reached', detail: 'The turn used more tools than it may.' },
  'wall-time': { title: 'Out of time', detail: 'The turn took longer than it may.' },
  cost: { title: 'Money budget used up', detail: 'The turn ended at its limit of money.' },
  'tool-failure-streak': {
    title: 'A tool kept failing',
    detail: 'The same tool failed the same way again and again, so the turn was ended.',
  },
  'output-limit': {
    title: 'The answer was cut off',
    detail: 'The model’s output limit cut the answer again and again.',
  },
};

const modelErrors: Readonly<Record<ModelErrorKind, { readonly title: string; readonly way: string }>> = {
  bad_request: { title: 'The provider refused the request', way: 'Its message says which field.' },
  auth: { title: 'The provider refused the key', way: 'Check the API key and what it may use.' },
  not_found: { title: 'The model was not found', way: 'Check the model’s name and the base URL.' },
  context_overflow: {
    title: 'The conversation is too long for the model',
    way: 'Begin a new chat, or choose a model with a larger window.',
  },
  rate_limited: { title: 'Too many requests', way: 'Wait a moment, then try again.' },
  quota_exceeded: { title: 'The account’s credit is used up', way: 'Add credit or quota at the provider.' },
  overloaded: { title: 'The provider is overloaded', way: 'Try again in a moment.' },
  server: { title: 'The provider failed', way: 'Try again in a moment.' },
  timeout: { title: 'The provider was too slow', way: 'Try again.' },
  network: { title: 'The provider cannot be reached', way: 'Check the connection of the server.' },
  stream_cut: { title: 'The connection to the model broke', way: 'Try again.' },
  content_filter: { title: 'The provider’s filter stopped the answer', way: 'Say it another way.' },
  protocol: { title: 'The provider’s answer was not understood', way: 'Check the base URL and the profile.' },
  cancelled: { title: 'The call was cancelled', way: 'Try again.' },
  config: { title: 'The model is not set up', way: 'Check the configuration of the model.' },
};

export interface Meter {
  readonly model: string | null;
  readonly calls: number;
  readonly prompt: number;
  readonly cached: number;
  readonly output: number;
  readonly estimated: boolean;
  /** `null` when prices are not known. */
  readonly costMicros: number | null;
}

const zero: Meter = { model: null, calls: 0, prompt: 0, cached: 0, output: 0, estimated: false, costMicros: null };

/** What a message has cost, nested turns included. */
export function meterOf(message: AssistantMessage): Meter {
  const own = message.iterations.reduce<Meter>(
    (sum, call) => ({
      model: `${call.provider}:${call.model}`,
      calls: sum.calls + 1,
      prompt: sum.prompt + (call.input ?? 0) + (call.cache_read ?? 0) + (call.cache_write ?? 0),
      cached: sum.cached + (call.cache_read ?? 0),
      output: sum.output + (call.output ?? 0),
      estimated: sum.estimated || call.estimated === true,
      costMicros: addCost(sum.costMicros, call.cost_micros ?? null),
    }),
    zero,
  );
  return message.parts.reduce(
    (sum, part) => (part.type === 'tool_call' && part.child ? addMeters(sum, meterOf(part.child)) : sum),
    own,
  );
}

export function addMeters(a: Meter, b: Meter): Meter {
  return {
    model: a.model ?? b.model,
    calls: a.calls + b.calls,
    prompt: a.prompt + b.prompt,
    cached: a.cached + b.cached,
    output: a.output + b.output,
    estimated: a.estimated || b.estimated,
    costMicros: addCost(a.costMicros, b.costMicros),
  };
}

function addCost(a: number | null, b: number | null): number | null {
  return a === null && b === null ? null : (a ?? 0) + (b ?? 0);
}

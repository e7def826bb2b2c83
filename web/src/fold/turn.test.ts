import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { golden } from '../../test/golden';
import { emptyTurn, foldTurn, type Event, type EventType, type TurnFold } from './index';
import { afterBytes, byteLength } from './utf8';

const fold = (events: readonly Event[]): TurnFold => events.reduce(foldTurn, emptyTurn);

describe('a turn', () => {
  test.each(golden)('folds to exactly what is stored: $name', ({ events, stored }) => {
    // Through text, since a key that is `undefined` must not pass for one that is absent.
    expect(JSON.parse(JSON.stringify(fold(events)))).toStrictEqual(stored);
    expect(fold(events)).toStrictEqual(stored);
  });

  test('shows every kind of event', () => {
    const kinds = new Set(golden.flatMap(({ events }) => events.map((event) => event.type)));
    expect([...kinds]).toEqual(
      expect.arrayContaining<EventType>([
        'agent-completed',
        'agent-started',
        'approval-decided',
        'approval-required',
        'assistant-message-finished',
        'assistant-message-paused',
        'assistant-message-resumed',
        'assistant-message-started',
        'client-tool-required',
        'context-compacted',
        'link-snapshots',
        'model-retry',
        'part-added',
        'part-dropped',
        'part-native',
        'parts-discarded',
        'plan-updated',
        'result-dropped',
        'route-selected',
        'text-delta',
        'text-replaced',
        'thinking-delta',
        'tool-call-args-delta',
        'tool-call-completed',
        'tool-call-failed',
        'tool-call-progress',
        'tool-call-started',
        'tool-call-status',
        'turn-aborted',
        'turn-completed',
        'turn-error',
        'turn-exhausted',
        'turn-paused',
        'turn-started',
        'usage',
      ]),
    );
  });

  test('leaves earlier states as they were', () => {
    for (const { events } of golden) {
      const states = [emptyTurn];
      const copies = [JSON.stringify(emptyTurn)];
      for (const event of events) {
        const next = foldTurn(states.at(-1) ?? emptyTurn, event);
        states.push(next);
        copies.push(JSON.stringify(next));
      }
      expect(states.map((state) => JSON.stringify(state))).toEqual(copies);
    }
  });

  test('takes a repeated delta without harm', () => {
    for (const { events } of golden) {
      let state = emptyTurn;
      for (const event of events) {
        state = foldTurn(state, event);
        if (event.type === 'text-delta' || event.type === 'thinking-delta') {
          if (event.offset > 0) expect(foldTurn(state, event)).toBe(state);
        }
      }
    }
  });

  test('notices a lost delta', () => {
    // What voids or rewrites text may void the gap as well.
    const voids = ['parts-discarded', 'assistant-message-resumed', 'text-replaced', 'part-dropped'];
    let noticed = 0;
    for (const { events } of golden) {
      const at = events.findIndex((event) => event.type === 'text-delta' && event.offset > 0);
      if (at === -1 || events.some((event) => voids.includes(event.type))) continue;
      expect(() => fold(events.toSpliced(at, 1))).toThrow();
      noticed += 1;
    }
    expect(noticed).toBeGreaterThan(2);
  });

  test('notices a final message that differs', () => {
    const { events } = golden[0] ?? { events: [] };
    const changed = events.map((event) =>
      event.type === 'assistant-message-finished'
        ? { ...event, message: { ...event.message, agent: 'another' } }
        : event,
    );
    expect(() => fold(changed)).toThrow('differs from its final form');
  });

  test('ignores what it does not know', () => {
    const unknown = { seq: 1, at: '', session: 's', turn: 't', agent: 'a', type: 'brand-new' };
    expect(foldTurn(emptyTurn, unknown as unknown as Event)).toBe(emptyTurn);
  });
});

describe('offsets', () => {
  const text = fc.string({ unit: 'grapheme' });

  test('count bytes as the server does', () => {
    fc.assert(
      fc.property(text, (value) => {
        expect(byteLength(value)).toBe(new TextEncoder().encode(value).length);
      }),
    );
  });

  test('cut only between characters', () => {
    fc.assert(
      fc.property(text, fc.nat(30), (value, bytes) => {
        const all = new TextEncoder().encode(value);
        const rest = afterBytes(value, bytes);
        if (rest === undefined) {
          // The byte at the cut continues a character.
          expect((all[bytes] ?? 0) & 0xc0).toBe(0x80);
        } else {
          expect(new TextEncoder().encode(rest)).toEqual(all.slice(bytes));
        }
      }),
    );
  });
});

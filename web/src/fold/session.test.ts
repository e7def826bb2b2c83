import { describe, expect, test } from 'vitest';
import { golden, type Golden } from '../../test/golden';
import {
  foldSession,
  fromMessages,
  OutOfStep,
  outcomeOf,
  pendingCards,
  phaseOf,
  withEarlier,
  type Event,
  type Message,
  type SessionFold,
} from './index';

const empty = fromMessages([], 0, null);
const fold = (events: readonly Event[], from: SessionFold = empty): SessionFold =>
  events.reduce(foldSession, from);

function stored({ stored: turn }: Golden): Message[] {
  const { user, assistant, cards } = turn;
  return [
    ...(user ? [{ role: 'user' as const, ...user }] : []),
    ...(assistant ? [{ role: 'assistant' as const, ...assistant }] : []),
    ...cards.map((card) => ({ role: 'system' as const, ...card })),
  ];
}

/** The turn `name` under another id and from another number on. */
function moved(events: readonly Event[], turn: string, by: number): Event[] {
  const text = JSON.stringify(events).replaceAll('"t-', `"${turn}-`).replaceAll('"t"', `"${turn}"`);
  return (JSON.parse(text) as Event[]).map((event) => ({ ...event, seq: event.seq + by }));
}

describe('a session', () => {
  test.each(golden)('shows of events what it shows of stored messages: $name', (turn) => {
    const streamed = fold(turn.events);
    const loaded = fromMessages(stored(turn), turn.events.length, null);
    expect(streamed.turns.map((t) => t.fold)).toEqual(loaded.turns.map((t) => t.fold));
    expect(streamed.seq).toBe(loaded.seq);
    expect(phaseOf(streamed)).toBe(phaseOf(loaded));
    const [a, b] = [streamed.turns[0], loaded.turns[0]];
    expect(a && outcomeOf(a)).toEqual(b && outcomeOf(b));
    expect(a && pendingCards(a)).toEqual(b && pendingCards(b));
  });

  test('keeps turns apart', () => {
    const [one, two] = [golden[1], golden[2]];
    if (!one || !two) throw new Error('there are golden turns');
    const after = one.events.length;
    const session = fold([...one.events, ...moved(two.events, 'x', after)]);
    expect(session.turns.map((turn) => turn.id)).toEqual(['t', 'x']);
    expect(session.turns[0]?.fold).toEqual(one.stored);
    expect(session.seq).toBe(after + two.events.length);
  });

  test('takes an event that comes again as no event', () => {
    for (const { events } of golden) {
      const plain = events.filter((event) => (event.epoch ?? 0) === 0);
      const session = fold(plain);
      for (const event of plain) expect(foldSession(session, event)).toBe(session);
    }
  });

  test('notices a gap', () => {
    const events = golden[0]?.events ?? [];
    expect(() => fold(events.toSpliced(3, 1))).toThrow(OutOfStep);
  });

  test('notices that a later epoch voids what it holds', () => {
    const events = golden[0]?.events ?? [];
    const [first, second] = events;
    if (!first || !second) throw new Error('there are golden turns');
    const session = fold(events.slice(0, 6));
    expect(() => foldSession(session, { ...second, epoch: 1 })).toThrow(OutOfStep);
    const other = { ...first, seq: 4, turn: 'another' };
    expect(() => foldSession(session, other)).toThrow(OutOfStep);
  });

  test('starts a running turn anew when it is told from its start', () => {
    for (const turn of golden) {
      // The session was paused when it was loaded, and the turn is told again from its first event.
      const loaded = fromMessages(stored(turn), 0, null);
      expect(fold(turn.events, loaded).turns[0]?.fold).toEqual(turn.stored);
    }
  });

  test('keeps the title and the plan', () => {
    const head = { at: '', session: 's', turn: 't', agent: 'main' };
    const session = fold([
      { ...head, seq: 1, type: 'session-title-updated', title: 'Parcels' },
      { ...head, seq: 2, type: 'plan-updated', plan: { steps: [] } },
    ]);
    expect(session).toMatchObject({ title: 'Parcels', plan: { steps: [] }, seq: 2 });
  });

  test('puts an earlier page in front, also within a turn', () => {
    const turn = golden.find((g) => g.stored.cards.length > 0);
    if (!turn) throw new Error('there is a turn with a card');
    const all = stored(turn);
    for (let cut = 0; cut <= all.length; cut += 1) {
      const session = withEarlier(fromMessages(all.slice(cut), 9, null), all.slice(0, cut));
      expect(session.turns).toEqual(fromMessages(all, 9, null).turns);
    }
  });
});

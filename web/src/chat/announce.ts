/** What a screen reader is told as a session goes on. Pure: from the state before and the state now. */

import { cardSummary } from '../cards/CardView';
import { outcomeOf, pendingCards, type SessionFold, type TurnState } from '../fold';
import { outcomeWords } from './words';

export interface Announcement {
  /** An approval interrupts what is being read; an answer waits its turn. */
  readonly urgency: 'polite' | 'assertive';
  readonly text: string;
}

/** `before` is `null` when the session was just opened: what is long over is not news, what waits is. */
export function announcements(before: SessionFold | null, now: SessionFold): readonly Announcement[] {
  const said: Announcement[] = [];
  for (const turn of now.turns) {
    const known = before?.turns.find((t) => t.id === turn.id);
    if (known === turn) continue;
    const waited = new Set(known === undefined ? [] : pendingCards(known).map((card) => card.id));
    for (const card of pendingCards(turn)) {
      if (card.body.kind === 'approval' && !waited.has(card.id)) {
        said.push({ urgency: 'assertive', text: `Approval needed. ${cardSummary(card.body)}` });
      }
    }
    const outcome = outcomeOf(turn);
    if (before === null || outcome === null || (known !== undefined && outcomeOf(known) !== null)) continue;
    const words = outcomeWords(outcome);
    said.push(
      words === null
        ? { urgency: 'polite', text: `Answer finished. ${lastText(turn)}` }
        : { urgency: 'polite', text: `${words.title}. ${words.detail ?? ''}` },
    );
  }
  return said;
}

function lastText(turn: TurnState): string {
  const text = turn.fold.assistant?.parts.findLast((p) => p.type === 'text');
  const plain = text?.type === 'text' ? text.text.replaceAll(/[`*_#>|]+/g, '').replaceAll(/\s+/g, ' ').trim() : '';
  return plain.length > 240 ? `${plain.slice(0, 240)}…` : plain;
}

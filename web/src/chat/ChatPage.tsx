import { describe, Problem } from '@turnbuckle/client';
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore, type RefObject } from 'react';
import { useApp } from '../app/context';
import { Header } from '../app/Header';
import { Decisions, type DecisionPort } from '../cards/decisions';
import { cardHeading } from '../cards/heading';
import type { Delivery } from '../client/api';
import type { Feed, FeedState, Refused } from '../client/feed';
import { pendingCards } from '../fold';
import { Button } from '../ui/Button';
import { Announcer } from './Announcer';
import { Composer } from './Composer';
import { textOf } from './MessageParts';
import { MeterLine } from './MeterLine';
import { currentPlan, isOver } from './plan';
import { PlanBar } from './PlanBar';
import { suggestionsOf } from './suggestions';
import { ToolTitles } from './titles';
import { Transcript } from './Transcript';
import { TurnView, Waiting } from './TurnView';
import { addMeters, meterOf, type Meter } from './words';
import styles from './ChatPage.module.css';

export function ChatPage({ id }: { readonly id: string }) {
  const { feeds } = useApp();
  return <Chat key={id} feed={feeds.of(id)} />;
}

function Chat({ feed }: { readonly feed: Feed }) {
  const { agents, list } = useApp();
  const state = useSyncExternalStore(feed.subscribe, feed.getState);
  const { link, session, fold, outgoing, answering, earlier, stopping, refused } = state;
  const [jump, setJump] = useState(0);
  const field = useRef<HTMLTextAreaElement>(null);
  const name = nameOf(state);
  const phase = session?.status ?? 'idle';
  const ready = session !== null;

  useEffect(() => {
    if (session !== null) list.note(session, name);
  }, [list, session, name]);

  const waiting = fold.turns.flatMap(pendingCards);
  const title = name ?? 'New chat';
  useEffect(() => {
    const mark = waiting.length > 0 ? `(${waiting.length}) ` : '';
    document.title = `${mark}${title} · Turnbuckle`;
  }, [waiting.length, title]);

  const deleted = link.is === 'deleted';
  useEffect(() => {
    if (deleted) void list.refresh();
  }, [deleted, list]);

  useFocusAfter(waiting.map((card) => card.id), field);

  const send = useCallback(
    (text: string, delivery: Delivery = 'queue') => {
      feed.send(text, delivery);
      setJump((n) => n + 1);
    },
    [feed],
  );
  const sendText = useCallback((text: string) => send(text), [send]);
  const stop = useCallback(() => void feed.stop(), [feed]);
  useEscape(phase === 'running' && !stopping, stop);

  const decisions = useMemo<DecisionPort>(
    () => ({ answering, decide: (card, decision) => void feed.decide(card, decision) }),
    [answering, feed],
  );
  const titles = useMemo(
    () => new Map(agents.flatMap((agent) => agent.tools.map((tool) => [tool.name, tool.title] as const))),
    [agents],
  );
  const plan = useMemo(() => currentPlan(fold), [fold]);
  const meter = useMemo(() => fold.turns.reduce<Meter | null>(total, null), [fold]);
  const suggestions = phase === 'idle' && outgoing.length === 0 ? suggestionsOf(fold) : [];

  if (link.is === 'failed' && !ready) return <Missing why={link.why} onRetry={() => feed.hurry()} />;
  return (
    <ToolTitles value={titles}>
      <Decisions value={decisions}>
        <Header title={title} agent={session?.agent ?? null} onRename={ready ? (name) => void feed.rename(name) : null} />
        <Connection link={link} onHurry={() => feed.hurry()} />
        {refused !== null && <Refusal refused={refused} onClose={() => feed.dismiss()} />}
        <Transcript
          jump={jump}
          earlier={earlier === null ? null : () => feed.loadEarlier()}
          first={fold.turns[0]?.id}
        >
          {fold.turns.map((turn, i) => (
            <TurnView
              key={turn.id}
              turn={turn}
              last={i === fold.turns.length - 1 && outgoing.length === 0}
              busy={session?.turn === turn.id && phase === 'running'}
              onSend={sendText}
            />
          ))}
          {outgoing.length > 0 && (
            <div className={styles.outgoing}>
              {outgoing.map((o) => (
                <Waiting
                  key={o.key}
                  text={textOf(o.content)}
                  label={o.turn === null || phase === 'idle' ? '' : o.delivery === 'steer' ? 'Enters at the next step' : 'Queued'}
                  error={o.error === null ? null : describe(o.error)}
                  onRetry={() => feed.resend(o.key)}
                  onDiscard={() => {
                    feed.discard(o.key);
                    const text = textOf(o.content);
                    restore(field.current, text);
                  }}
                />
              ))}
            </div>
          )}
        </Transcript>
        <div className={styles.foot}>
          <div className={styles.column}>
            {waiting.length > 1 && <PendingBar cards={waiting.map((card) => card.id)} />}
            {plan !== null && (!isOver(plan) || phase !== 'idle') && <PlanBar plan={plan} />}
            {suggestions.length > 0 && (
              <div className={styles.suggestions} role="group" aria-label="What you might say next">
                {suggestions.map((text) => (
                  <button key={text} type="button" onClick={() => send(text)}>
                    {text}
                  </button>
                ))}
              </div>
            )}
            <Composer
              name={feed.id}
              phase={phase}
              stopping={stopping}
              disabled={deleted}
              onSend={send}
              onStop={stop}
              fieldRef={field}
              aside={meter === null ? null : <MeterLine meter={meter} />}
            />
          </div>
        </div>
        <Announcer fold={fold} ready={ready} />
      </Decisions>
    </ToolTitles>
  );
}

/** Its title; until it has one, what was asked first. */
function nameOf({ fold, session, earlier, outgoing }: FeedState): string | null {
  const title = fold.title ?? session?.title;
  if (title != null) return title;
  const first = earlier === null ? (fold.turns[0]?.fold.user?.content ?? outgoing[0]?.content) : undefined;
  const asked = first === undefined ? '' : (textOf(first).trim().split('\n', 1)[0] ?? '');
  const short = asked.length > 80 ? `${asked.slice(0, 80).trimEnd()}…` : asked;
  return short === '' ? null : short;
}

function total(sum: Meter | null, turn: FeedState['fold']['turns'][number]): Meter | null {
  const { assistant } = turn.fold;
  if (assistant === null) return sum;
  const meter = meterOf(assistant);
  return sum === null ? meter : { ...addMeters(sum, meter), model: meter.model ?? sum.model };
}

/** Puts a text back into the field as if it had been typed, in front of what is there. */
function restore(field: HTMLTextAreaElement | null, text: string): void {
  if (field === null) return;
  const value = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value');
  value?.set?.call(field, field.value === '' ? text : `${text}\n${field.value}`);
  field.dispatchEvent(new Event('input', { bubbles: true }));
  field.focus();
}

/** Escape stops a turn, unless something else that is open takes it. */
function useEscape(active: boolean, onEscape: () => void): void {
  useEffect(() => {
    if (!active) return;
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || event.defaultPrevented) return;
      if (document.querySelector('[role="dialog"], [role="menu"]') !== null) return;
      onEscape();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, [active, onEscape]);
}

/** When a card goes away with the focus in it, the focus goes on: to the next card, else to the field. */
function useFocusAfter(cards: readonly string[], field: RefObject<HTMLTextAreaElement | null>): void {
  const before = useRef(cards);
  useEffect(() => {
    const gone = before.current.some((card) => !cards.includes(card));
    before.current = cards;
    // On a phone the keyboard would cover what comes.
    if (!gone || document.activeElement !== document.body || !matchMedia('(hover: hover)').matches) return;
    const next = cardHeading() ?? field.current;
    next?.focus({ preventScroll: true });
  });
}

function Connection({ link, onHurry }: { readonly link: FeedState['link']; readonly onHurry: () => void }) {
  switch (link.is) {
    case 'loading':
    case 'live':
      return null;
    case 'broken':
      return (
        <div className={styles.connection} role="status">
          The connection broke. What happens meanwhile is kept, and shows when it is back.
          <Button size="small" onClick={onHurry}>
            Try now
          </Button>
        </div>
      );
    case 'failed':
      return (
        <div className={styles.connection} data-tone="bad" role="alert">
          {describe(link.why)}
          <Button size="small" onClick={onHurry}>
            Load again
          </Button>
        </div>
      );
    case 'deleted':
      return (
        <div className={styles.connection} data-tone="bad" role="alert">
          This chat has been deleted.
        </div>
      );
  }
}

const REFUSALS: Readonly<Record<Refused['what'], string>> = {
  stop: 'The turn could not be stopped.',
  rename: 'The title could not be changed.',
};

function Refusal({ refused, onClose }: { readonly refused: Refused; readonly onClose: () => void }) {
  return (
    <div className={styles.connection} data-tone="bad" role="alert">
      {REFUSALS[refused.what]} {describe(refused.why)}
      <Button size="small" onClick={onClose}>
        Close
      </Button>
    </div>
  );
}

function PendingBar({ cards }: { readonly cards: readonly string[] }) {
  const show = () => {
    const heading = cardHeading(cards[0]);
    heading?.closest('[data-card]')?.scrollIntoView({ behavior: 'smooth', block: 'center' });
    heading?.focus({ preventScroll: true });
  };
  return (
    <div className={styles.pending}>
      <strong>{cards.length} decisions wait for you.</strong>
      <Button size="small" onClick={show}>
        Go to the first
      </Button>
    </div>
  );
}

function Missing({ why, onRetry }: { readonly why: unknown; readonly onRetry: () => void }) {
  const missing = why instanceof Problem && why.status === 404;
  return (
    <>
      <Header title={missing ? 'Not found' : 'Something went wrong'} agent={null} onRename={null} />
      <div className={styles.missing}>
        <h2>{missing ? 'There is no such chat' : 'The chat could not be loaded'}</h2>
        <p>{missing ? 'It may have been deleted, or it is not yours to see.' : describe(why)}</p>
        {!missing && <Button onClick={onRetry}>Try again</Button>}
      </div>
    </>
  );
}

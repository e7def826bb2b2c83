import { Clock3, Check, Copy, Info, RotateCcw } from 'lucide-react';
import { memo, type ReactNode } from 'react';
import { outcomeOf, type Outcome, type SystemMessage, type TurnState, type UserMessage } from '../fold';
import { PlainText } from '../markdown/PlainText';
import { Button, IconButton } from '../ui/Button';
import { Spinner } from '../ui/Spinner';
import { useCopy } from '../ui/useCopy';
import { useNow } from '../ui/useNow';
import { CardView } from '../cards/CardView';
import { MessageParts, textOf } from './MessageParts';
import { MeterLine } from './MeterLine';
import { duration, meterOf, outcomeWords } from './words';
import styles from './TurnView.module.css';

export interface TurnViewProps {
  readonly turn: TurnState;
  readonly last: boolean;
  /** Whether the session is busy with it, as far as the server said before its events came. */
  readonly busy: boolean;
  readonly onSend: (text: string) => void;
}

/** What was asked, and everything one turn said and did. */
export const TurnView = memo(function TurnView({ turn, last, busy, onSend }: TurnViewProps) {
  const { user, assistant, cards } = turn.fold;
  const outcome = outcomeOf(turn);
  const state = assistant?.state.state;
  const running = state === 'running' || (assistant === null && busy);
  const question = user === null ? '' : textOf(user.content);
  const answer = assistant?.parts.flatMap((p) => (p.type === 'text' ? [p.text] : [])).join('\n\n') ?? '';
  return (
    <article className={styles.turn} data-turn={turn.id} aria-busy={running}>
      {user !== null && <Asked message={user} />}
      {turn.others.map((message) => (
        <Other key={message.id} message={message} />
      ))}
      {assistant !== null && <MessageParts message={assistant} cards={cards} />}
      {assistant !== null && <Orphans turn={turn} />}
      <Notes turn={turn} />
      {running && <Working turn={turn} />}
      {outcome !== null && <OutcomeBanner outcome={outcome} last={last} question={question} onSend={onSend} />}
      {assistant !== null && outcome !== null && (
        <footer className={styles.foot}>
          <CopyAnswer text={answer} />
          <MeterLine meter={meterOf(assistant)} />
        </footer>
      )}
    </article>
  );
});

function Asked({ message }: { readonly message: UserMessage }) {
  const from = originWords(message);
  return (
    <div className={styles.asked}>
      {from !== null && <div className={styles.origin}>{from}</div>}
      <div className={styles.bubble} data-asked>
        <PlainText text={textOf(message.content)} />
      </div>
    </div>
  );
}

function originWords({ origin }: UserMessage): string | null {
  switch (origin.kind) {
    case 'person':
      return null;
    case 'task':
      return `Background task ${origin.task} ended`;
    case 'channel':
      return 'From an outside channel';
    case 'trigger':
      return `Started by ${origin.trigger}`;
  }
}

function Other({ message }: { readonly message: SystemMessage }) {
  return message.body.kind === 'note' ? (
    <div className={styles.note}>
      <Info size={14} />
      <PlainText text={message.body.text} />
    </div>
  ) : null;
}

/** Pending cards whose call is not among the parts, as in a message that was cut at its start. */
function Orphans({ turn }: { readonly turn: TurnState }) {
  const { assistant, cards } = turn.fold;
  const text = assistant === null ? '' : JSON.stringify(callIds(assistant));
  return cards.map((card) =>
    card.body.kind === 'approval' && card.body.status === 'pending' && !text.includes(`"${card.body.call}"`) ? (
      <CardView key={card.id} id={card.id} card={card.body} />
    ) : null,
  );
}

function callIds(message: NonNullable<TurnState['fold']['assistant']>): readonly string[] {
  return message.parts.flatMap((part) =>
    part.type === 'tool_call' ? [part.id, ...(part.child ? callIds(part.child) : [])] : [],
  );
}

function Notes({ turn }: { readonly turn: TurnState }) {
  const lines = turn.notes.flatMap((note): readonly ReactNode[] => {
    switch (note.kind) {
      case 'compacted':
        return [`${note.note} (${note.before.toLocaleString('en')} to ${note.after.toLocaleString('en')} tokens)`];
      case 'overflowed':
        return ['What tools gave in this turn grew too large to be kept for reference.'];
      case 'replaced':
        return [`${note.to} answers in the place of ${note.from}: ${note.reason}`];
      case 'task':
        return [`Background task ${note.task} runs (${note.reference}).`];
    }
  });
  return lines.map((line, i) => (
    <div key={i} className={styles.note}>
      <Info size={14} />
      <span>{line}</span>
    </div>
  ));
}

/** What is under way when nothing else shows it. */
function Working({ turn }: { readonly turn: TurnState }) {
  const now = useNow(true, 1000);
  const since = Date.parse(turn.fold.user?.at ?? turn.fold.assistant?.at ?? '');
  const took = Number.isNaN(since) ? 0 : Math.max(0, now - since);
  const last = turn.fold.assistant?.parts.at(-1);
  if (turn.retry !== null) {
    return (
      <div className={styles.retry} role="status">
        <RotateCcw size={14} />
        <span>
          The model call failed ({turn.retry.error.message}). Attempt {turn.retry.attempt} comes
          {turn.retry.delayMs > 0 ? ` in ${duration(turn.retry.delayMs)}` : ' now'}.
        </span>
      </div>
    );
  }
  const shows = last?.type === 'tool_call' && last.status === 'running';
  return (
    <div className={styles.working} data-quiet={shows || undefined}>
      <span className={styles.dots} aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      <span className="sr-only">Working</span>
      {took >= 3000 && <span className={styles.elapsed}>{duration(took)}</span>}
    </div>
  );
}

interface OutcomeBannerProps {
  readonly outcome: Outcome;
  readonly last: boolean;
  readonly question: string;
  readonly onSend: (text: string) => void;
}

function OutcomeBanner({ outcome, last, question, onSend }: OutcomeBannerProps) {
  const words = outcomeWords(outcome);
  if (words === null) return null;
  const { action } = words;
  const sends = action?.sends === 'again' ? question : 'Continue.';
  return (
    <div className={styles.outcome} data-tone={words.tone} role={words.tone === 'bad' ? 'alert' : undefined}>
      <div className={styles.outcomeText}>
        <strong>{words.title}</strong>
        {words.detail !== null && <span>{words.detail}</span>}
        {words.way !== null && <span>{words.way}</span>}
      </div>
      {last && action !== null && sends !== '' && (
        <Button size="small" onClick={() => onSend(sends)}>
          {action.label}
        </Button>
      )}
    </div>
  );
}

function CopyAnswer({ text }: { readonly text: string }) {
  const { copied, copy } = useCopy();
  if (text === '') return null;
  return (
    <IconButton label={copied ? 'Copied' : 'Copy the answer'} className={styles.copy} onClick={() => copy(text)}>
      {copied ? <Check size={14} /> : <Copy size={14} />}
    </IconButton>
  );
}

export interface WaitingProps {
  readonly text: string;
  readonly label: string;
  readonly error: string | null;
  readonly onRetry: () => void;
  readonly onDiscard: () => void;
}

/** A message on its way: not yet taken, queued, or waiting to steer. */
export function Waiting({ text, label, error, onRetry, onDiscard }: WaitingProps) {
  return (
    <div className={styles.asked}>
      <div className={styles.bubble} data-waiting data-failed={error !== null || undefined}>
        <PlainText text={text} />
      </div>
      {error === null ? (
        <div className={styles.delivery}>
          {label === '' ? <Spinner size={11} /> : <Clock3 size={12} />} {label === '' ? 'Sending' : label}
        </div>
      ) : (
        <div className={styles.delivery} data-failed role="alert">
          Not sent: {error}
          <Button size="small" look="quiet" onClick={onDiscard}>
            Back to the field
          </Button>
          <Button size="small" onClick={onRetry}>
            Try again
          </Button>
        </div>
      )}
    </div>
  );
}

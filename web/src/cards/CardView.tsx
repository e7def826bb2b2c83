import { describe } from '@turnbuckle/client';
import { ChevronDown, ChevronRight, Hand, MonitorSmartphone } from 'lucide-react';
import { useContext, useId, useRef, useState, type KeyboardEvent } from 'react';
import { flushSync } from 'react-dom';
import { useStored } from '../ui/useStored';
import type { Decision } from '../client/api';
import type { ApprovalCard, Json } from '../fold';
import { isObject } from '../markdown/record';
import { Value } from '../chat/Value';
import { duration, oneLine } from '../chat/words';
import { Button } from '../ui/Button';
import { Menu } from '../ui/Menu';
import { Spinner } from '../ui/Spinner';
import { AutoText } from '../ui/AutoText';
import { useNow } from '../ui/useNow';
import { Decisions } from './decisions';
import { FieldInput } from './FieldInput';
import { amendmentOf, draftOf, fieldsOf, isEmpty, type Draft, type Field } from './fields';
import styles from './CardView.module.css';

export interface CardViewProps {
  readonly id: string;
  readonly card: ApprovalCard;
}

/** A question to a person: what will run, what of it may be changed, yes or no. */
export function CardView({ id, card }: CardViewProps) {
  const { answering, decide } = useContext(Decisions);
  const [drafts, setDrafts] = useStored<Readonly<Record<string, Draft>>>(`card.${id}`, {});
  const [rejecting, setRejecting] = useState(false);
  const [reason, setReason] = useState('');
  const rejectButton = useRef<HTMLButtonElement>(null);
  const actions = useRef<HTMLElement>(null);
  const titleId = useId();
  const answer = answering.get(id);
  const busy = answer?.error === null;
  const forPerson = card.asks === 'decision';
  const fields = forPerson ? fieldsOf(card.editable, card.args) : [];
  const { changed, wrong } = amendmentOf(fields, drafts);
  const isChanged = Object.keys(changed).length > 0;
  const isWrong = Object.keys(wrong).length > 0;
  const rest = without(card.args, fields.map((field) => field.name));

  const approve = (remember?: 'session' | 'user') => {
    if (busy || isWrong || !forPerson) return;
    const decision: Decision = {
      decision: 'approve',
      ...(isChanged ? { amendment: changed } : {}),
      ...(remember === undefined ? {} : { remember }),
    };
    decide(id, decision);
  };
  const reject = () => {
    if (busy) return;
    decide(id, { decision: 'reject', ...(reason.trim() === '' ? {} : { reason: reason.trim() }) });
  };
  const askWhy = () => {
    flushSync(() => setRejecting(true));
    actions.current?.scrollIntoView({ block: 'nearest' });
  };
  const back = () => {
    flushSync(() => setRejecting(false));
    rejectButton.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (rejecting) reject();
      else approve();
    } else if (event.key === 'Escape' && rejecting) {
      event.stopPropagation();
      back();
    }
  };

  // What would run stands first; what could be set besides is a click away.
  const all = fields.every(isEmpty);
  const set = fields.filter((field) => all || !isEmpty(field));
  const unset = fields.filter((field) => !set.includes(field));
  const input = (field: Field) => (
    <FieldInput
      key={field.name}
      field={field}
      draft={drafts[field.name] ?? draftOf(field)}
      wrong={wrong[field.name]}
      disabled={busy}
      onChange={(draft) => setDrafts((others) => ({ ...others, [field.name]: draft }))}
    />
  );

  return (
    <section className={styles.card} aria-labelledby={titleId} data-card={id} data-busy={busy || undefined} onKeyDown={onKeyDown}>
      <header className={styles.head}>
        <span className={styles.icon}>{forPerson ? <Hand size={16} /> : <MonitorSmartphone size={16} />}</span>
        <div className={styles.titles}>
          <h2 id={titleId} tabIndex={-1}>
            {card.title}
          </h2>
          <p>
            {forPerson ? 'Waits for your approval' : 'Waits for a front end that runs this tool'}
            {card.reason !== undefined && <> · {card.reason}</>}
          </p>
        </div>
        {card.expires_at !== undefined && <Expiry at={card.expires_at} />}
      </header>

      <fieldset className={styles.body} disabled={busy}>
        <legend className="sr-only">What will run</legend>
        {set.map(input)}
        {rest !== null && <Value label={fields.length > 0 ? 'Not to be changed' : 'What will run'} value={rest} />}
        {unset.length > 0 && (
          <details className={styles.more} open={unset.some((field) => drafts[field.name] !== undefined)}>
            <summary>
              <ChevronRight size={14} aria-hidden="true" />
              Also: {unset.map((field) => field.label.toLowerCase()).join(', ')}
            </summary>
            <div className={styles.body}>{unset.map(input)}</div>
          </details>
        )}
      </fieldset>

      {rejecting && (
        <div className={styles.reason}>
          <label htmlFor={`${titleId}-reason`}>Why not? The agent reads it. (You may leave it empty.)</label>
          <AutoText
            id={`${titleId}-reason`}
            value={reason}
            minRows={2}
            maxRows={6}
            autoFocus
            disabled={busy}
            onChange={(e) => setReason(e.target.value)}
          />
        </div>
      )}

      {answer?.error != null && (
        <p className={styles.error} role="alert">
          The decision did not arrive: {describe(answer.error)}
        </p>
      )}

      <footer className={styles.actions} ref={actions}>
        {busy && (
          <span className={styles.busy}>
            <Spinner /> {onItsWay(answer.decision)}
          </span>
        )}
        {rejecting ? (
          <>
            <Button look="quiet" onClick={back} disabled={busy}>
              Back
            </Button>
            <Button look="danger" onClick={reject} disabled={busy}>
              Reject
            </Button>
          </>
        ) : (
          <>
            <Button ref={rejectButton} look="quiet" onClick={askWhy} disabled={busy}>
              Reject…
            </Button>
            {forPerson && (
              <span className={styles.split}>
                <Button look="primary" onClick={() => approve()} disabled={busy || isWrong}>
                  {isChanged ? 'Approve with changes' : 'Approve'}
                </Button>
                <Menu
                  trigger={
                    <Button look="primary" aria-label="More ways to approve" disabled={busy || isWrong}>
                      <ChevronDown size={14} />
                    </Button>
                  }
                  entries={[
                    {
                      label: 'Always allow in this chat',
                      hint: `${card.title} will not ask again here`,
                      onSelect: () => approve('session'),
                    },
                    {
                      label: 'Always allow for me',
                      hint: 'In every chat of yours',
                      onSelect: () => approve('user'),
                    },
                  ]}
                />
              </span>
            )}
          </>
        )}
      </footer>
    </section>
  );
}

function onItsWay(decision: Decision | null): string {
  if (decision === null) return 'Decided, on its way';
  return decision.decision === 'approve' ? 'Approved, on its way' : 'Rejected, on its way';
}

function Expiry({ at }: { readonly at: string }) {
  const now = useNow(true, 1000);
  const left = Date.parse(at) - now;
  return (
    <span className={styles.expiry} title={new Date(at).toLocaleString()}>
      {left > 0 ? `expires in ${duration(left)}` : 'expires now'}
    </span>
  );
}

function without(args: Json, names: readonly string[]): Json | null {
  if (!isObject(args)) return args;
  const rest = Object.fromEntries(Object.entries(args).filter(([name]) => !names.includes(name)));
  return Object.keys(rest).length === 0 ? null : rest;
}

/** What a card asks, in one line. */
export function cardSummary(card: ApprovalCard): string {
  const about = oneLine(card.digest ?? card.args);
  return about === '' ? card.title : `${card.title}: ${about}`;
}

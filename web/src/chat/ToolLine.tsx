import { Ban, Check, CircleHelp, Hand, Inbox, OctagonX, RotateCw } from 'lucide-react';
import { memo, useContext, type ReactNode } from 'react';
import type { ApprovalCard, Json, SystemMessage, ToolCallPart } from '../fold';
import { Changes } from '../cards/Changes';
import { CardView } from '../cards/CardView';
import { Spinner } from '../ui/Spinner';
import { useNow } from '../ui/useNow';
import { MessageParts } from './MessageParts';
import { Line, type LineProps } from './Line';
import { ToolTitles } from './titles';
import { Value } from './Value';
import { callTime, duration, oneLine, toolErrors, toolTitle } from './words';

export interface ToolLineProps {
  readonly call: ToolCallPart;
  readonly cards: readonly SystemMessage[];
}

/** A tool call in one line; a pending one is a card that a person answers. */
export const ToolLine = memo(function ToolLine({ call, cards }: ToolLineProps) {
  const titles = useContext(ToolTitles);
  const card = cardFor(call, cards);
  const running = call.status === 'running' && call.started_at !== undefined;
  const now = useNow(running, 100);
  const time = callTime(call, now);
  if (card?.body.status === 'pending' && call.status === 'awaiting_approval') {
    return <CardView id={card.id} card={card.body} />;
  }
  const look = lookOf(call);
  return (
    <Line
      icon={look.icon}
      tone={look.tone}
      title={titles.get(call.name) ?? card?.body.title ?? toolTitle(call.name)}
      digest={digestOf(call)}
      {...(time !== null && (time >= 1000 || !running) ? { time: duration(time) } : {})}
    >
      {details(call, card?.body, cards)}
    </Line>
  );
});

type StoredCard = SystemMessage & { readonly body: ApprovalCard };

/** The last card about the call: it may be asked about again. */
function cardFor(call: ToolCallPart, cards: readonly SystemMessage[]): StoredCard | undefined {
  return cards.findLast((c): c is SystemMessage & { body: ApprovalCard & { kind: 'approval' } } => {
    return c.body.kind === 'approval' && c.body.call === call.id;
  });
}

function lookOf(call: ToolCallPart): { readonly icon: ReactNode; readonly tone: NonNullable<LineProps['tone']> } {
  switch (call.status) {
    case 'running':
      return { icon: <Spinner />, tone: 'live' };
    case 'awaiting_approval':
      return { icon: <Hand size={14} />, tone: 'warn' };
    case 'completed':
      if (call.captured === true) return { icon: <Inbox size={14} />, tone: 'warn' };
      if (call.cached === true) return { icon: <RotateCw size={13} />, tone: 'calm' };
      return { icon: <Check size={14} strokeWidth={2.5} />, tone: 'calm' };
    case 'error':
      return call.error?.code === 'outcome_unknown'
        ? { icon: <CircleHelp size={14} />, tone: 'bad' }
        : { icon: <OctagonX size={14} />, tone: 'bad' };
    case 'rejected':
    case 'cancelled':
      return { icon: <Ban size={14} />, tone: 'calm' };
  }
}

function digestOf(call: ToolCallPart): ReactNode {
  const asked = oneLine(call.args);
  switch (call.status) {
    case 'running': {
      const step = call.progress?.at(-1);
      return (step && oneLine(step.data)) ?? asked;
    }
    case 'completed': {
      const prefix = call.captured === true ? 'queued for review' : call.cached === true ? 'known already' : null;
      const result = call.digest === undefined ? (call.summary ?? oneLine(call.output)) : oneLine(call.digest);
      return [prefix, result === '' ? asked : result].filter(Boolean).join(' · ');
    }
    case 'error':
    case 'rejected':
    case 'cancelled': {
      const word = call.error ? toolErrors[call.error.code] : call.status;
      return call.status === 'error' ? `${word} · ${call.error?.message ?? ''}` : word;
    }
    case 'awaiting_approval':
      return asked;
  }
}

function details(call: ToolCallPart, card: ApprovalCard | undefined, cards: readonly SystemMessage[]): ReactNode {
  const args: Json | undefined = call.args ?? (call.arguments === '' ? undefined : call.arguments);
  const { decided } = card ?? {};
  const shown = [
    args !== undefined && <Value key="args" label="Asked with" value={args} />,
    decided && (
      <Value
        key="decided"
        label={decidedWords(card)}
        value={decided.reason === undefined || decided.reason === '' ? 'without a comment' : `“${decided.reason}”`}
      />
    ),
    call.amendment !== undefined && card && (
      <Changes key="changes" before={card.args} after={call.amendment} label="Changed before it ran" />
    ),
    call.progress && call.progress.length > 0 && (
      <Value key="progress" label="Progress" value={call.progress.map((step) => oneLine(step.data)).join('\n')} />
    ),
    call.child && <MessageParts key="child" message={call.child} cards={cards} />,
    call.error && <Value key="error" label="Why" value={call.error.message} />,
    call.output !== undefined && <Value key="output" label="Result" value={call.output} />,
  ].filter(Boolean);
  return shown.length === 0 ? undefined : shown;
}

function decidedWords(card: ApprovalCard | undefined): string {
  const by = card?.decided?.by;
  const who = by === undefined ? '' : ` by ${by}`;
  switch (card?.status) {
    case 'approved':
      return `Approved${who}`;
    case 'rejected':
      return `Rejected${who}`;
    case 'expired':
      return 'Expired';
    case 'superseded':
      return 'Superseded';
    case 'cancelled':
      return 'Cancelled';
    case 'pending':
    case undefined:
      return 'Decision';
  }
}

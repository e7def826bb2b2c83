import { ArrowUp, CornerDownRight, ListPlus, Square } from 'lucide-react';
import { useId, type KeyboardEvent, type ReactNode, type Ref } from 'react';
import type { Delivery } from '../client/api';
import type { Phase } from '../fold';
import { AutoText } from '../ui/AutoText';
import { Button } from '../ui/Button';
import { Spinner } from '../ui/Spinner';
import { useStored } from '../ui/useStored';
import styles from './Composer.module.css';

export interface ComposerProps {
  /** Under which name its text survives a reload. */
  readonly name: string;
  readonly phase: Phase;
  readonly stopping?: boolean;
  readonly disabled?: boolean;
  readonly placeholder?: string;
  /** Takes the text. When what it gives is rejected, the text comes back. */
  readonly onSend: (text: string, delivery: Delivery) => unknown;
  readonly onStop?: () => void;
  readonly aside?: ReactNode;
  readonly fieldRef?: Ref<HTMLTextAreaElement>;
}

const PLACEHOLDER: Readonly<Record<Phase, string>> = {
  idle: 'Ask, or say what should be done',
  running: 'Add something while it works',
  paused: 'A decision waits above. A new message sets it aside.',
};

export function Composer(props: ComposerProps) {
  const { name, phase, stopping = false, disabled = false, onSend, onStop } = props;
  const [text, setText] = useStored(`draft.${name}`, '');
  const hintId = useId();
  const running = phase === 'running';
  const empty = text.trim() === '';

  const send = (delivery: Delivery) => {
    if (empty || disabled) return;
    const sent = onSend(text.trim(), delivery);
    setText('');
    if (sent instanceof Promise) sent.catch(() => setText((now) => (now === '' ? text : now)));
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    // While a word is being composed, Enter belongs to the input method.
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send(running && (event.ctrlKey || event.metaKey) ? 'steer' : 'queue');
  };

  return (
    <form
      className={styles.composer}
      onSubmit={(event) => {
        event.preventDefault();
        send('queue');
      }}
    >
      <AutoText
        ref={props.fieldRef ?? null}
        className={styles.field}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
        maxRows={9}
        placeholder={props.placeholder ?? PLACEHOLDER[phase]}
        aria-label="Message"
        aria-describedby={hintId}
        disabled={disabled}
        enterKeyHint="send"
        autoComplete="off"
      />
      <div className={styles.bar}>
        <div className={styles.aside}>{props.aside}</div>
        <span className={styles.hint} id={hintId}>
          {running && !empty ? (
            <>
              <kbd>Enter</kbd> queues, <kbd>Ctrl Enter</kbd> steers
            </>
          ) : (
            <span className="sr-only">Enter sends, Shift and Enter begins a new line, Escape stops a turn.</span>
          )}
        </span>
        {running && !empty && (
          <>
            <Button size="small" onClick={() => send('steer')} title="Enters the running turn at its next step">
              <CornerDownRight size={13} /> Steer
            </Button>
            <Button size="small" onClick={() => send('queue')} title="Opens the next turn">
              <ListPlus size={13} /> Queue
            </Button>
          </>
        )}
        {running ? (
          <button
            type="button"
            className={styles.round}
            data-look="stop"
            onClick={onStop}
            disabled={stopping}
            aria-label={stopping ? 'Stopping' : 'Stop'}
            title="Stop (Esc)"
          >
            {stopping ? <Spinner size={16} /> : <Square size={13} fill="currentColor" />}
          </button>
        ) : (
          <button type="submit" className={styles.round} disabled={empty || disabled} aria-label="Send" title="Send (Enter)">
            <ArrowUp size={18} strokeWidth={2.25} />
          </button>
        )}
      </div>
    </form>
  );
}

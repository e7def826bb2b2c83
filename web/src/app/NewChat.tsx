import { describe } from '@turnbuckle/client';
import { ArrowRight } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { Composer } from '../chat/Composer';
import { readStored, writeStored } from '../stored';
import { useApp } from './context';
import { Header } from './Header';
import { Logo } from './Logo';
import { go } from './router';
import styles from './NewChat.module.css';

/** What the support desk that ships has something to show for. */
const SAMPLES = [
  { text: 'Which threads are open, and which orders are late?', note: 'Looks through mail and orders side by side' },
  { text: 'Reply to the newest thread', note: 'Reads, writes, and asks before anything is sent' },
  { text: 'Make a plan for today', note: 'Keeps a checklist while it works' },
  { text: 'Remind me to call the carrier tomorrow at 9', note: 'Creates a task after your word' },
] as const;

/** Names of what is kept over a reload: the text in the field, and one whose chat is being made. */
const DRAFT = 'draft.new';
const BEGUN = 'begun';

export function NewChat() {
  useState(takeBack);

  const { api, feeds, info } = useApp();
  const [sending, setSending] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const desk = info.default_agent == null || info.default_agent.startsWith('desk');

  useEffect(() => {
    document.title = 'Turnbuckle';
    // On a phone the keyboard would cover what there is to see.
    if (matchMedia('(hover: hover)').matches) field.current?.focus();
  }, []);

  const begin = async (text: string) => {
    setSending(true);
    setError(null);
    writeStored(BEGUN, text);
    try {
      const session = await api.createSession(crypto.randomUUID());
      feeds.of(session.id).send(text, 'queue');
      go({ is: 'session', id: session.id });
    } catch (why) {
      setSending(false);
      setError(why);
      throw why;
    } finally {
      writeStored(BEGUN, '');
    }
  };
  // What went wrong is shown; the composer gives its text back by itself.
  const tryBegin = (text: string) => void begin(text).catch(() => undefined);

  return (
    <>
      <Header title="New chat" agent={null} onRename={null} />
      <div className={styles.page}>
        <div className={styles.column}>
          <Logo size={40} />
          <h2>{desk ? 'What needs doing at the desk?' : 'What should be done?'}</h2>
          {error !== null && (
            <p className={styles.error} role="alert">
              The chat could not be started: {describe(error)}
            </p>
          )}
          <Composer name="new" phase="idle" disabled={sending} onSend={begin} fieldRef={field} />
          {desk && (
            <ul className={styles.samples}>
              {SAMPLES.map((sample) => (
                <li key={sample.text}>
                  <button type="button" disabled={sending} onClick={() => tryBegin(sample.text)}>
                    <span>
                      <strong>{sample.text}</strong>
                      <small>{sample.note}</small>
                    </span>
                    <ArrowRight size={15} />
                  </button>
                </li>
              ))}
            </ul>
          )}
        </div>
      </div>
    </>
  );
}

/** A reload ended the page while it made a chat: what was to be said in it is back in the field. */
function takeBack(): void {
  const text = readStored<string>(BEGUN, '');
  if (text === '') return;
  if (readStored<string>(DRAFT, '') === '') writeStored(DRAFT, text);
  writeStored(BEGUN, '');
}

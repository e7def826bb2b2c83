import { useState } from 'react';
import styles from './PlainText.module.css';

/** Characters that are shown at once; a page that lays out millions of them stands still. */
const MOST = 12_000;
/** What is shown of a longer text. */
const SHOWN = 4_000;

/** Text as it was written, line breaks kept. */
export function PlainText({ text }: { readonly text: string }) {
  const [whole, setWhole] = useState(false);
  const long = text.length > MOST;
  return (
    <div className={styles.text}>
      {long && !whole ? `${text.slice(0, SHOWN)}…` : text}
      {long && (
        <button type="button" className={styles.more} onClick={() => setWhole((on) => !on)}>
          {whole ? 'Show less' : `Show all ${text.length.toLocaleString('en')} characters`}
        </button>
      )}
    </div>
  );
}

import { useState } from 'react';
import { Button } from '../ui/Button';
import { Logo } from './Logo';
import styles from './Gate.module.css';

export function SignIn({ wrong, onKey }: { readonly wrong: boolean; readonly onKey: (key: string) => void }) {
  const [key, setKey] = useState('');
  return (
    <main className={styles.gate}>
      <form
        className={styles.box}
        onSubmit={(event) => {
          event.preventDefault();
          if (key.trim() !== '') onKey(key.trim());
        }}
      >
        <Logo size={40} />
        <h1>Sign in</h1>
        <p>This server wants to know who you are. Paste an API key or a token; it is kept in this tab only.</p>
        <label htmlFor="key">API key or token</label>
        <input id="key" type="password" autoComplete="off" autoFocus value={key} onChange={(event) => setKey(event.target.value)} />
        {wrong && (
          <p className={styles.error} role="alert">
            The server does not accept this key.
          </p>
        )}
        <Button type="submit" look="primary" disabled={key.trim() === ''}>
          Go on
        </Button>
      </form>
    </main>
  );
}

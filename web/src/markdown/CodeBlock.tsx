import { Check, Copy } from 'lucide-react';
import { useCopy } from '../ui/useCopy';
import styles from './CodeBlock.module.css';

export function CodeBlock({ language, code }: { readonly language: string | null; readonly code: string }) {
  const { copied, copy } = useCopy();
  return (
    <figure className={styles.block}>
      <figcaption className={styles.head}>
        <span>{language ?? 'text'}</span>
        <button type="button" className={styles.copy} onClick={() => copy(code)}>
          {copied ? <Check size={13} /> : <Copy size={13} />}
          {copied ? 'Copied' : 'Copy'}
        </button>
      </figcaption>
      <pre tabIndex={0}>
        <code>{code}</code>
      </pre>
    </figure>
  );
}

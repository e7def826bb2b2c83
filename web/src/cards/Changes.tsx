import { memo } from 'react';
import type { Json } from '../fold';
import { isObject, wordsOf } from '../markdown/record';
import { diff } from './diff';
import styles from './Changes.module.css';

export interface ChangesProps {
  readonly before: Json | undefined;
  /** The changed fields only. */
  readonly after: Json;
  readonly label?: string;
}

/** What a person changed, field by field. */
export const Changes = memo(function Changes({ before, after, label }: ChangesProps) {
  if (!isObject(after)) return null;
  const old = isObject(before) ? before : {};
  return (
    <div className={styles.changes}>
      {label !== undefined && <div className={styles.label}>{label}</div>}
      {Object.entries(after).map(([name, value]) => (
        <div key={name} className={styles.field}>
          <div className={styles.name}>{wordsOf(name)}</div>
          <TextChange before={textOf(old[name])} after={textOf(value)} />
        </div>
      ))}
    </div>
  );
});

export const TextChange = memo(function TextChange({ before, after }: { readonly before: string; readonly after: string }) {
  return (
    <div className={styles.text}>
      {diff(before, after).map((piece, i) => {
        switch (piece.is) {
          case 'same':
            return <span key={i}>{shortened(piece.text)}</span>;
          case 'added':
            return <ins key={i}>{piece.text}</ins>;
          case 'removed':
            return <del key={i}>{piece.text}</del>;
        }
      })}
    </div>
  );
});

/** Long stretches without a change lose their middle, between words. */
export function shortened(text: string): string {
  if (text.length <= 160) return text;
  const [head, tail] = [text.slice(0, 70), text.slice(-70)];
  const whole = [head.replace(/\S+$/, ''), tail.replace(/^\S+/, '')] as const;
  return `${(whole[0].trim() === '' ? head : whole[0]).trimEnd()} … ${(whole[1].trim() === '' ? tail : whole[1]).trimStart()}`;
}

export function textOf(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value.join('\n');
  return JSON.stringify(value, null, 2);
}

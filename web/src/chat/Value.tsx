import { memo } from 'react';
import { isObject, plain, wordsOf } from '../markdown/record';
import type { Json } from '../fold';
import styles from './Value.module.css';

/** A JSON value for people: short facts as a list, everything else as JSON. */
export const Value = memo(function Value({ label, value }: { readonly label: string; readonly value: Json }) {
  return (
    <div className={styles.value}>
      <div className={styles.label}>{label}</div>
      <Content value={value} />
    </div>
  );
});

function Content({ value }: { readonly value: Json }) {
  if (typeof value === 'string') return <div className={styles.text}>{value}</div>;
  if (isObject(value) && isFlat(value)) {
    return (
      <dl className={styles.facts}>
        {Object.entries(value).map(([key, item]) => (
          <div key={key}>
            <dt>{wordsOf(key)}</dt>
            <dd>{plain(item) ?? <span className={styles.none}>{item === false ? 'no' : 'none'}</span>}</dd>
          </div>
        ))}
      </dl>
    );
  }
  return (
    <pre className={styles.json} tabIndex={0}>
      {JSON.stringify(value, null, 2)}
    </pre>
  );
}

function isFlat(map: Readonly<Record<string, Json>>): boolean {
  const items = Object.values(map);
  return (
    items.length > 0 &&
    items.length <= 12 &&
    items.every(
      (item) =>
        item === null ||
        typeof item !== 'object' ||
        (Array.isArray(item) && (item as readonly Json[]).every((x) => typeof x !== 'object')),
    )
  );
}

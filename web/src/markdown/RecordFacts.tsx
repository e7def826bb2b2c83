import type { RecordView } from './record';
import styles from './RecordFacts.module.css';

export function RecordFacts({ record }: { readonly record: RecordView }) {
  return (
    <div className={styles.record}>
      {record.kind !== null && <div className={styles.kind}>{record.kind}</div>}
      <div className={styles.name}>{record.name}</div>
      {record.snippet !== null && <p className={styles.snippet}>{record.snippet}</p>}
      {record.missing && <p className={styles.snippet}>Nothing is known of {record.id}.</p>}
      {record.facts.length > 0 && (
        <dl className={styles.facts}>
          {record.facts.map((fact) => (
            <div key={fact.label}>
              <dt>{fact.label}</dt>
              <dd>{fact.value}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

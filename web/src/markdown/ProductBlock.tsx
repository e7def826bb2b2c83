import type { Json } from '../fold';
import { PlanSteps } from '../chat/PlanSteps';
import { planOf } from '../chat/plan';
import { CodeBlock } from './CodeBlock';
import { RecordFacts } from './RecordFacts';
import { isObject, plain, recordOf, type RecordView } from './record';
import styles from './ProductBlock.module.css';

export interface ProductBlockProps {
  /** Such as `desk:thread-list`. */
  readonly kind: string;
  readonly body: string;
  readonly growing: boolean;
}

/** A block of the product in a text: records, a plan, a table. What is not understood shows as it was written. */
export function ProductBlock({ kind, body, growing }: ProductBlockProps) {
  const value = read(body);
  if (value === undefined) {
    return growing ? <div className={styles.coming} aria-label="Loading" /> : <CodeBlock language={kind} code={body} />;
  }
  const plan = planOf(value);
  if (plan !== null) return <PlanSteps plan={plan} />;
  const table = tableOf(value);
  if (table !== null) return <RowsView table={table} />;
  const records = recordsOf(value);
  if (records !== null) {
    return (
      <ul className={styles.records}>
        {records.map((record) => (
          <li key={record.id}>
            <RecordRow record={record} />
          </li>
        ))}
      </ul>
    );
  }
  return <CodeBlock language={kind} code={body} />;
}

function RecordRow({ record }: { readonly record: RecordView }) {
  const [first, ...rest] = record.facts;
  return (
    <details className={styles.row}>
      <summary>
        <span className={styles.kind}>{record.kind ?? 'record'}</span>
        <span className={styles.name}>{record.name}</span>
        {first !== undefined && <span className={styles.tag}>{first.value}</span>}
        <span className={styles.aside}>{rest[0]?.value}</span>
      </summary>
      <div className={styles.more}>
        <RecordFacts record={{ ...record, kind: null, name: record.id }} />
      </div>
    </details>
  );
}

function read(body: string): Json | undefined {
  try {
    return JSON.parse(body) as Json;
  } catch {
    return undefined;
  }
}

function recordsOf(value: Json): readonly RecordView[] | null {
  if (!isObject(value)) return null;
  const ids = Array.isArray(value.ids) ? value.ids : value.id === undefined ? null : [value.id];
  if (ids === null) return null;
  const known = value.snapshots ?? value.snapshot;
  const snapshots: readonly Json[] = Array.isArray(known) ? known : known === undefined ? [] : [known];
  return (ids as readonly Json[]).map((id) => {
    const name = typeof id === 'string' ? id : JSON.stringify(id);
    const found = snapshots.find((s) => isObject(s) && s.id === id);
    return found === undefined ? { ...recordOf({}, name), missing: false } : recordOf(found, name);
  });
}

interface Rows {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

function tableOf(value: Json): Rows | null {
  if (!isObject(value) || !Array.isArray(value.rows)) return null;
  const cell = (item: Json): string => (isObject(item) ? (plain(item.text) ?? plain(item) ?? '') : (plain(item) ?? ''));
  const columns = Array.isArray(value.columns) ? (value.columns as readonly Json[]) : [];
  const rows = value.rows as readonly Json[];
  return {
    columns: columns.map((column) => (isObject(column) ? (plain(column.label) ?? '') : cell(column))),
    rows: rows.map((row) => (Array.isArray(row) ? (row as readonly Json[]).map(cell) : [cell(row)])),
  };
}

function RowsView({ table }: { readonly table: Rows }) {
  return (
    <div className={styles.scroll} tabIndex={0} role="region" aria-label="Table">
      <table>
        {table.columns.length > 0 && (
          <thead>
            <tr>
              {table.columns.map((column, i) => (
                <th key={i} scope="col">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
        )}
        <tbody>
          {table.rows.map((row, i) => (
            <tr key={i}>
              {row.map((text, j) => (
                <td key={j}>{text}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

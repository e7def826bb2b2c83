import type { ReactNode } from 'react';
import type { Json } from '../fold';
import { HoverCard } from '../ui/HoverCard';
import { RecordFacts } from './RecordFacts';
import { recordOf } from './record';
import styles from './RecordLink.module.css';

export interface RecordLinkProps {
  readonly address: string;
  readonly snapshot: Json | undefined;
  readonly children: ReactNode;
}

/** A mention of a record; what is known of it shows when one points at it. */
export function RecordLink({ address, snapshot, children }: RecordLinkProps) {
  if (snapshot === undefined) return <span className={styles.link}>{children}</span>;
  return (
    <HoverCard trigger={<button type="button" className={styles.link}>{children}</button>}>
      <RecordFacts record={recordOf(snapshot, address)} />
    </HoverCard>
  );
}

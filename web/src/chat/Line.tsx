import { Collapsible } from '@base-ui/react/collapsible';
import { ChevronRight } from 'lucide-react';
import type { ReactNode } from 'react';
import styles from './Line.module.css';

export interface LineProps {
  readonly icon: ReactNode;
  readonly tone?: 'calm' | 'live' | 'bad' | 'warn';
  readonly title: ReactNode;
  readonly digest?: ReactNode;
  readonly time?: ReactNode;
  /** What unfolding shows; without it there is nothing to unfold. */
  readonly children?: ReactNode;
  readonly defaultOpen?: boolean;
}

/** Something that happened, in one line. */
export function Line({ icon, tone = 'calm', title, digest, time, children, defaultOpen = false }: LineProps) {
  const line = (
    <>
      <span className={styles.icon} data-tone={tone}>
        {icon}
      </span>
      <span className={styles.title}>{title}</span>
      <span className={styles.digest}>{digest}</span>
      {time !== undefined && <span className={styles.time}>{time}</span>}
    </>
  );
  if (children === undefined) return <div className={styles.line}>{line}</div>;
  return (
    <Collapsible.Root defaultOpen={defaultOpen}>
      <Collapsible.Trigger className={styles.line}>
        {line}
        <ChevronRight size={14} className={styles.chevron} />
      </Collapsible.Trigger>
      <Collapsible.Panel className={styles.panel}>
        <div className={styles.inside}>{children}</div>
      </Collapsible.Panel>
    </Collapsible.Root>
  );
}

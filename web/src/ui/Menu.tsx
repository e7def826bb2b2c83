import { Menu as Base } from '@base-ui/react/menu';
import type { ReactElement, ReactNode } from 'react';
import styles from './Menu.module.css';

export interface MenuEntry {
  readonly label: string;
  readonly hint?: string;
  readonly icon?: ReactNode;
  readonly danger?: boolean;
  readonly checked?: boolean;
  readonly onSelect: () => void;
}

export interface MenuProps {
  /** The button that opens it. */
  readonly trigger: ReactElement;
  readonly entries: readonly MenuEntry[];
  readonly side?: 'top' | 'bottom';
  readonly align?: 'start' | 'end';
}

export function Menu({ trigger, entries, side = 'bottom', align = 'end' }: MenuProps) {
  return (
    <Base.Root>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner side={side} align={align} sideOffset={6} className={styles.positioner}>
          <Base.Popup className={styles.popup}>
            {entries.map((entry) => (
              <Base.Item
                key={entry.label}
                className={styles.item}
                data-danger={entry.danger === true || undefined}
                onClick={entry.onSelect}
              >
                {entry.icon}
                <span className={styles.text}>
                  <span>{entry.label}</span>
                  {entry.hint !== undefined && <span className={styles.hint}>{entry.hint}</span>}
                </span>
                {entry.checked === true && <span aria-label="chosen">✓</span>}
              </Base.Item>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

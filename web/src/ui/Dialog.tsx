import { Dialog as Base } from '@base-ui/react/dialog';
import { X } from 'lucide-react';
import type { ReactNode } from 'react';
import { IconButton } from './Button';
import styles from './Dialog.module.css';

export interface DialogProps {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
  readonly title: string;
  readonly description?: ReactNode;
  readonly children?: ReactNode;
  readonly actions?: ReactNode;
}

export function Dialog({ open, onOpenChange, title, description, children, actions }: DialogProps) {
  return (
    <Base.Root open={open} onOpenChange={onOpenChange}>
      <Base.Portal>
        <Base.Backdrop className={styles.backdrop} />
        <Base.Popup className={styles.popup}>
          <header className={styles.head}>
            <Base.Title className={styles.title}>{title}</Base.Title>
            <Base.Close render={<IconButton label="Close" />}>
              <X size={16} />
            </Base.Close>
          </header>
          {description !== undefined && (
            <Base.Description className={styles.description}>{description}</Base.Description>
          )}
          {children}
          {actions !== undefined && <footer className={styles.actions}>{actions}</footer>}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

export interface DrawerProps {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
  readonly label: string;
  readonly children: ReactNode;
}

/** Slides in from the side, on narrow screens. */
export function Drawer({ open, onOpenChange, label, children }: DrawerProps) {
  return (
    <Base.Root open={open} onOpenChange={onOpenChange}>
      <Base.Portal>
        <Base.Backdrop className={styles.backdrop} />
        <Base.Popup className={styles.drawer} aria-label={label}>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

import { PreviewCard } from '@base-ui/react/preview-card';
import type { ReactElement, ReactNode } from 'react';
import styles from './HoverCard.module.css';

export function HoverCard({ trigger, children }: { readonly trigger: ReactElement; readonly children: ReactNode }) {
  return (
    <PreviewCard.Root>
      <PreviewCard.Trigger render={trigger} delay={250} />
      <PreviewCard.Portal>
        <PreviewCard.Positioner sideOffset={6} className={styles.positioner}>
          <PreviewCard.Popup className={styles.popup}>{children}</PreviewCard.Popup>
        </PreviewCard.Positioner>
      </PreviewCard.Portal>
    </PreviewCard.Root>
  );
}

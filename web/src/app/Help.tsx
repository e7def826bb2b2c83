import { Dialog } from '../ui/Dialog';
import styles from './Help.module.css';

const SHORTCUTS: readonly (readonly [string, string])[] = [
  ['Enter', 'Send; while a turn runs, queue'],
  ['Shift Enter', 'New line'],
  ['Ctrl Enter', 'Steer the running turn; in a card, approve'],
  ['Esc', 'Stop the running turn'],
  ['Ctrl K', 'Search chats'],
  ['Ctrl Shift O', 'New chat'],
  ['Ctrl B', 'Show or hide the list of chats'],
  ['Alt ↑ / Alt ↓', 'Chat above or below'],
  ['Ctrl Shift A', 'Go to what waits for you'],
  ['?', 'This help'],
];

export function Help({ open, onOpenChange }: { readonly open: boolean; readonly onOpenChange: (open: boolean) => void }) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title="Keyboard">
      <dl className={styles.list}>
        {SHORTCUTS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

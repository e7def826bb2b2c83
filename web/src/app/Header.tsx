import { Menu as MenuIcon, PanelLeft } from 'lucide-react';
import { useContext, useState, type KeyboardEvent } from 'react';
import { IconButton } from '../ui/Button';
import { useApp } from './context';
import { Shell } from './shell';
import styles from './Header.module.css';

export interface HeaderProps {
  readonly title: string;
  readonly agent: string | null;
  readonly onRename: ((title: string) => void) | null;
}

export function Header({ title, agent, onRename }: HeaderProps) {
  const { info } = useApp();
  const { toggleSidebar, openDrawer } = useContext(Shell);
  return (
    <>
      {info.model.rehearsal && <RehearsalStrip why={info.model.why} />}
      <header className={styles.header}>
        <span className={styles.onlyWide}>
          <IconButton label="Show or hide the list of chats" onClick={toggleSidebar}>
            <PanelLeft size={17} />
          </IconButton>
        </span>
        <span className={styles.onlyNarrow}>
          <IconButton label="List of chats" onClick={openDrawer}>
            <MenuIcon size={18} />
          </IconButton>
        </span>
        <Title title={title} onRename={onRename} />
        {agent !== null && <span className={styles.agent}>{agent}</span>}
        {!info.model.rehearsal && (
          <span className={styles.model} title={info.model.why}>
            {info.model.id}
          </span>
        )}
      </header>
    </>
  );
}

function RehearsalStrip({ why }: { readonly why: string }) {
  return (
    <div className={styles.strip} role="note">
      <span className={styles.stripes} aria-hidden="true" />
      <p>
        <strong>Rehearsal.</strong> No model answers: a script plays its part. Tools, database and approvals are real.
        <span className={styles.why}> {why}</span>
      </p>
    </div>
  );
}

function Title({ title, onRename }: Pick<HeaderProps, 'title' | 'onRename'>) {
  const [draft, setDraft] = useState<string | null>(null);
  if (draft === null || onRename === null) {
    return (
      <h1 className={styles.title}>
        {onRename === null ? (
          title
        ) : (
          <button type="button" title="Rename" onClick={() => setDraft(title)}>
            {title}
          </button>
        )}
      </h1>
    );
  }
  const save = () => {
    const name = draft.trim();
    if (name !== '' && name !== title) onRename(name);
    setDraft(null);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter') save();
    else if (event.key === 'Escape') {
      event.preventDefault();
      setDraft(null);
    }
  };
  return (
    <input
      className={styles.rename}
      value={draft}
      aria-label="Title of the chat"
      maxLength={200}
      autoFocus
      onFocus={(event) => event.target.select()}
      onChange={(event) => setDraft(event.target.value)}
      onBlur={save}
      onKeyDown={onKeyDown}
    />
  );
}

import { describe } from '@turnbuckle/client';
import { Ellipsis, Keyboard, Monitor, Moon, Pencil, Search, SquarePen, Sun, Trash2, X } from 'lucide-react';
import { memo, useMemo, useState, useSyncExternalStore, type Ref } from 'react';
import type { Session } from '../client/api';
import { Button, IconButton } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { Menu } from '../ui/Menu';
import { More } from '../ui/More';
import { Spinner } from '../ui/Spinner';
import { useNow } from '../ui/useNow';
import { useApp } from './context';
import { Logo } from './Logo';
import { go, pathOf, usePlace } from './router';
import { ago, grouped } from './days';
import { setTheme, useTheme } from './theme';
import styles from './Sidebar.module.css';

export interface SidebarProps {
  readonly searchRef?: Ref<HTMLInputElement>;
  readonly onHelp: () => void;
  /** Called when a place was chosen, so that a drawer can close. */
  readonly onGo?: () => void;
}

export function Sidebar({ searchRef, onHelp, onGo }: SidebarProps) {
  const { list, who } = useApp();
  const place = usePlace();
  const state = useSyncExternalStore(list.subscribe, list.getState);
  const now = useNow(true, 30_000);
  const groups = useMemo(() => grouped(state.items, now), [state.items, now]);
  const [editing, setEditing] = useState<{ readonly session: Session; readonly what: 'rename' | 'delete' } | null>(null);

  const open = (to: Parameters<typeof go>[0]) => {
    go(to);
    onGo?.();
  };

  return (
    <nav className={styles.sidebar} aria-label="Chats">
      <div className={styles.brand}>
        <Logo />
        <span>Turnbuckle</span>
        <IconButton label="New chat (Ctrl Shift O)" onClick={() => open({ is: 'new' })}>
          <SquarePen size={17} />
        </IconButton>
      </div>
      <div className={styles.search}>
        <Search size={14} aria-hidden="true" />
        <input
          ref={searchRef}
          type="search"
          placeholder="Search chats"
          aria-label="Search chats"
          value={state.search}
          onChange={(event) => list.search(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') {
              event.preventDefault();
              list.search('');
            }
          }}
        />
        {state.search === '' ? (
          <kbd>Ctrl K</kbd>
        ) : (
          <button type="button" aria-label="Clear the search" onClick={() => list.search('')}>
            <X size={14} />
          </button>
        )}
      </div>
      <div className={styles.list} tabIndex={-1}>
        {groups.map((group) => (
          <section key={group.name}>
            <h2>{group.name}</h2>
            <ul>
              {group.items.map((session) => (
                <Entry
                  key={session.id}
                  session={session}
                  when={ago(session.updated, now)}
                  current={place.is === 'session' && place.id === session.id}
                  onOpen={open}
                  onEdit={setEditing}
                />
              ))}
            </ul>
          </section>
        ))}
        {state.items.length === 0 && (
          <p className={styles.none}>
            {state.loading ? <Spinner /> : state.error !== null ? describe(state.error) : state.search === '' ? 'Your chats will be here.' : 'Nothing found.'}
          </p>
        )}
        {state.next !== null && (
          // What failed in one search says nothing about the next.
          <More key={state.search} label="Older chats" className={styles.more} load={() => list.more()} />
        )}
      </div>
      <footer className={styles.foot}>
        <span className={styles.who} title={`${who.user}, ${who.tenant}`}>
          {who.user}
        </span>
        <IconButton label="Keyboard shortcuts (?)" onClick={onHelp}>
          <Keyboard size={16} />
        </IconButton>
        <ThemeMenu />
      </footer>
      {editing?.what === 'rename' && <Rename session={editing.session} onDone={() => setEditing(null)} />}
      {editing?.what === 'delete' && <Delete session={editing.session} onDone={() => setEditing(null)} />}
    </nav>
  );
}

interface EntryProps {
  readonly session: Session;
  readonly when: string;
  readonly current: boolean;
  readonly onOpen: (place: { readonly is: 'session'; readonly id: string }) => void;
  readonly onEdit: (edit: { readonly session: Session; readonly what: 'rename' | 'delete' }) => void;
}

const Entry = memo(function Entry({ session, when, current, onOpen, onEdit }: EntryProps) {
  const place = { is: 'session', id: session.id } as const;
  const name = session.title ?? 'New chat';
  return (
    <li className={styles.entry} data-current={current || undefined}>
      <a
        href={pathOf(place)}
        aria-current={current ? 'page' : undefined}
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
          event.preventDefault();
          onOpen(place);
        }}
      >
        <span className={styles.name}>{name}</span>
        {session.status === 'idle' ? (
          <span className={styles.when}>{when}</span>
        ) : (
          <span className={styles.status} data-status={session.status}>
            {session.status === 'running' ? <Spinner size={12} /> : null}
            {session.status === 'running' ? <span className="sr-only">running</span> : 'waits for you'}
          </span>
        )}
      </a>
      <Menu
        trigger={
          <IconButton label={`More about ${name}`} className={styles.dots}>
            <Ellipsis size={15} />
          </IconButton>
        }
        entries={[
          { label: 'Rename', icon: <Pencil size={14} />, onSelect: () => onEdit({ session, what: 'rename' }) },
          { label: 'Delete', icon: <Trash2 size={14} />, danger: true, onSelect: () => onEdit({ session, what: 'delete' }) },
        ]}
      />
    </li>
  );
});

function ThemeMenu() {
  const theme = useTheme();
  const Icon = theme === 'dark' ? Moon : theme === 'light' ? Sun : Monitor;
  return (
    <Menu
      side="top"
      trigger={
        <IconButton label="Theme">
          <Icon size={16} />
        </IconButton>
      }
      entries={[
        { label: 'Light', icon: <Sun size={14} />, checked: theme === 'light', onSelect: () => setTheme('light') },
        { label: 'Dark', icon: <Moon size={14} />, checked: theme === 'dark', onSelect: () => setTheme('dark') },
        { label: 'Like the system', icon: <Monitor size={14} />, checked: theme === 'system', onSelect: () => setTheme('system') },
      ]}
    />
  );
}

interface EditProps {
  readonly session: Session;
  readonly onDone: () => void;
}

function Rename({ session, onDone }: EditProps) {
  const { list, feeds } = useApp();
  const [title, setTitle] = useState(session.title ?? '');
  const [error, setError] = useState<unknown>(null);
  const save = () => {
    list.rename(session.id, title.trim()).then((renamed) => {
      // The chat may be open.
      feeds.known(session.id)?.retitle(renamed.title ?? null);
      onDone();
    }, setError);
  };
  return (
    <Dialog
      open
      onOpenChange={onDone}
      title="Rename the chat"
      actions={
        <>
          <Button look="quiet" onClick={onDone}>
            Cancel
          </Button>
          <Button look="primary" disabled={title.trim() === ''} onClick={save}>
            Rename
          </Button>
        </>
      }
    >
      <input
        className={styles.input}
        aria-label="Title"
        value={title}
        maxLength={200}
        autoFocus
        onChange={(event) => setTitle(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && title.trim() !== '') save();
        }}
      />
      {error !== null && <p role="alert">{describe(error)}</p>}
    </Dialog>
  );
}

function Delete({ session, onDone }: EditProps) {
  const { list, feeds } = useApp();
  const place = usePlace();
  const [error, setError] = useState<unknown>(null);
  const remove = () => {
    list.remove(session.id).then(() => {
      if (place.is === 'session' && place.id === session.id) go({ is: 'new' }, 'replace');
      feeds.forget(session.id);
      onDone();
    }, setError);
  };
  return (
    <Dialog
      open
      onOpenChange={onDone}
      title="Delete this chat?"
      description={
        <>
          “{session.title ?? 'New chat'}” and everything in it will be gone for good.
          {session.status === 'running' && ' What runs in it is stopped first.'}
        </>
      }
      actions={
        <>
          <Button look="quiet" onClick={onDone}>
            Cancel
          </Button>
          <Button look="danger" onClick={remove}>
            Delete
          </Button>
        </>
      }
    >
      {error !== null && <p role="alert">{describe(error)}</p>}
    </Dialog>
  );
}

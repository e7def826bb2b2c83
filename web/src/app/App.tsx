import { Backoff, describe, isPassing, Problem, sleep } from '@turnbuckle/client';
import { useEffect, useMemo, useRef, useState } from 'react';
import { cardHeading } from '../cards/heading';
import { ChatPage } from '../chat/ChatPage';
import { Api, type Agent, type Info, type WhoAmI } from '../client/api';
import { SessionList } from '../client/list';
import { Button } from '../ui/Button';
import { Drawer } from '../ui/Dialog';
import { Spinner } from '../ui/Spinner';
import { AppContext, Feeds, type App as AppValue } from './context';
import { Help } from './Help';
import { NewChat } from './NewChat';
import { go, usePlace } from './router';
import { Shell } from './shell';
import { Sidebar } from './Sidebar';
import { SignIn } from './SignIn';
import { setToken, token } from './token';
import gate from './Gate.module.css';
import styles from './App.module.css';

type Start =
  | { readonly is: 'asking'; readonly why: unknown }
  | { readonly is: 'signed-out'; readonly wrong: boolean }
  | { readonly is: 'failed'; readonly why: unknown }
  | { readonly is: 'ready'; readonly info: Info; readonly who: WhoAmI; readonly agents: readonly Agent[] };

export function App() {
  const [start, setStart] = useState<Start>({ is: 'asking', why: null });
  const [attempt, setAttempt] = useState(0);
  const api = useMemo(() => new Api({ token }), []);

  useEffect(() => {
    const life = new AbortController();
    void ask(api, life.signal, setStart);
    return () => life.abort();
  }, [api, attempt]);

  const again = () => {
    setStart({ is: 'asking', why: null });
    setAttempt((n) => n + 1);
  };
  switch (start.is) {
    case 'asking':
      return (
        <main className={gate.gate}>
          <div className={gate.wait} role="status">
            <Spinner size={16} />
            {start.why === null ? 'Connecting' : `${describe(start.why)} Trying again.`}
          </div>
        </main>
      );
    case 'signed-out':
      return (
        <SignIn
          wrong={start.wrong}
          onKey={(key) => {
            setToken(key);
            again();
          }}
        />
      );
    case 'failed':
      return (
        <main className={gate.gate}>
          <div className={gate.box}>
            <h1>This does not work</h1>
            <p role="alert">{describe(start.why)}</p>
            <Button onClick={again}>Try again</Button>
          </div>
        </main>
      );
    case 'ready':
      return <Ready api={api} info={start.info} who={start.who} agents={start.agents} />;
  }
}

async function ask(api: Api, life: AbortSignal, tell: (start: Start) => void): Promise<void> {
  const backoff = new Backoff();
  const gone = (): boolean => life.aborted;
  while (!gone()) {
    try {
      const [info, who, agents] = await Promise.all([api.info(), api.whoami(), api.agents()]);
      if (!gone()) tell({ is: 'ready', info, who, agents });
      return;
    } catch (why) {
      if (gone()) return;
      if (why instanceof Problem && why.status === 401) {
        tell({ is: 'signed-out', wrong: token() !== null });
        setToken(null);
        return;
      }
      if (!isPassing(why)) {
        tell({ is: 'failed', why });
        return;
      }
      tell({ is: 'asking', why });
      await sleep(backoff.next(), life);
    }
  }
}

function Ready({ api, info, who, agents }: Omit<AppValue, 'list' | 'feeds'>) {
  const place = usePlace();
  const [sidebar, setSidebar] = useState(true);
  const [drawer, setDrawer] = useState(false);
  const [help, setHelp] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  const list = useMemo(() => new SessionList(api), [api]);
  const feeds = useMemo(() => new Feeds(api), [api]);
  const app = useMemo<AppValue>(() => ({ api, info, who, agents, list, feeds }), [api, info, who, agents, list, feeds]);
  const shell = useMemo(
    () => ({ toggleSidebar: () => setSidebar((on) => !on), openDrawer: () => setDrawer(true) }),
    [],
  );

  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const mod = event.ctrlKey || event.metaKey;
      const key = event.key.toLowerCase();
      if (mod && !event.shiftKey && key === 'k') {
        setSidebar(true);
        requestAnimationFrame(() => search.current?.focus());
      } else if (mod && event.shiftKey && key === 'o') go({ is: 'new' });
      else if (mod && event.shiftKey && key === 'a') toWaiting(list);
      else if (mod && !event.shiftKey && key === 'b') setSidebar((on) => !on);
      else if (event.altKey && (key === 'arrowup' || key === 'arrowdown')) neighbour(list, key === 'arrowup' ? -1 : 1);
      else if (event.key === '?' && !isTyping(event.target)) setHelp(true);
      else return;
      event.preventDefault();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, [list]);

  return (
    <AppContext value={app}>
      <Shell value={shell}>
        <div className={styles.app} data-sidebar={sidebar}>
          <div className={styles.sidebar}>
            <Sidebar searchRef={search} onHelp={() => setHelp(true)} />
          </div>
          <main className={styles.main}>{place.is === 'new' ? <NewChat /> : <ChatPage id={place.id} />}</main>
        </div>
        <Drawer open={drawer} onOpenChange={setDrawer} label="Chats">
          <Sidebar onHelp={() => setHelp(true)} onGo={() => setDrawer(false)} />
        </Drawer>
        <Help open={help} onOpenChange={setHelp} />
      </Shell>
    </AppContext>
  );
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]');
}

/** To the first card of this chat, else to the next chat in which one waits. */
function toWaiting(list: SessionList): void {
  const heading = cardHeading();
  if (heading !== null) {
    heading.scrollIntoView({ block: 'center' });
    heading.focus({ preventScroll: true });
    return;
  }
  const session = list.getState().items.find((s) => s.status === 'paused');
  if (session !== undefined) go({ is: 'session', id: session.id });
}

function neighbour(list: SessionList, step: -1 | 1): void {
  const { items } = list.getState();
  const at = items.findIndex((s) => location.pathname.endsWith(encodeURIComponent(s.id)));
  const next = items[at === -1 ? 0 : at + step];
  if (next !== undefined) go({ is: 'session', id: next.id });
}

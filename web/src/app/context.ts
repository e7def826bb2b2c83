import { createContext, useContext } from 'react';
import type { Agent, Api, Info, WhoAmI } from '../client/api';
import { Feed } from '../client/feed';
import { keepUnsent } from '../client/outbox';
import type { SessionList } from '../client/list';

/** What a page works with. */
export interface App {
  readonly api: Api;
  readonly list: SessionList;
  readonly feeds: Feeds;
  readonly info: Info;
  readonly who: WhoAmI;
  readonly agents: readonly Agent[];
}

/** Feeds by session: one begun by the first message of a chat is the one its page goes on with. */
export class Feeds {
  readonly #feeds = new Map<string, Feed>();

  constructor(private readonly api: Api) {}

  of(id: string): Feed {
    const known = this.#feeds.get(id);
    if (known !== undefined) return known;
    const feed = new Feed(id, this.api);
    this.#feeds.set(id, feed);
    return feed;
  }

  /** The feed of a session, when its page has been open. */
  known(id: string): Feed | undefined {
    return this.#feeds.get(id);
  }

  forget(id: string): void {
    this.#feeds.delete(id);
    keepUnsent(id, []);
  }
}

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (app === null) throw new Error('a page is shown without the app around it');
  return app;
}

/** The list of sessions: searched, paged, and kept up with what happens. */

import type { Api, Session } from './api';

export interface ListState {
  readonly search: string;
  readonly items: readonly Session[];
  readonly next: string | null;
  readonly loading: boolean;
  readonly error: unknown;
}

const LIMIT = 50;
/** How often the list is read while the page is seen: other pages and people change sessions, too. */
const EVERY = 15_000;

export class SessionList {
  #state: ListState = { search: '', items: [], next: null, loading: true, error: null };
  readonly #listeners = new Set<() => void>();
  #asking: AbortController | null = null;
  #timer: ReturnType<typeof setInterval> | null = null;
  /** Sessions being deleted are gone for the reader; they come back when that fails. */
  readonly #leaving = new Set<string>();
  /** What sessions without a title are called here. */
  readonly #names = new Map<string, string>();

  constructor(private readonly api: Api) {}

  getState = (): ListState => this.#state;

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) {
      void this.refresh();
      this.#timer = setInterval(() => {
        if (!document.hidden) void this.refresh();
      }, EVERY);
      document.addEventListener('visibilitychange', this.#seen);
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      if (this.#timer !== null) clearInterval(this.#timer);
      document.removeEventListener('visibilitychange', this.#seen);
      this.#asking?.abort();
    };
  };

  #seen = (): void => {
    if (!document.hidden) void this.refresh();
  };

  search(text: string): void {
    if (text === this.#state.search) return;
    this.#set({ search: text, loading: true });
    void this.refresh();
  }

  /** Reads the first page again; pages that were opened stay as long as they follow on it. */
  async refresh(): Promise<void> {
    this.#asking?.abort();
    const asking = new AbortController();
    this.#asking = asking;
    const { search } = this.#state;
    try {
      const page = await this.api.sessions(
        { limit: LIMIT, ...(search.trim() === '' ? {} : { q: search.trim() }) },
        asking.signal,
      );
      if (asking.signal.aborted) return;
      const { items, next } = this.#state;
      const fresh = new Set(page.items.map((s) => s.id));
      const oldest = page.items.at(-1)?.updated ?? '';
      // Only a list that was paged beyond the first page has more to keep.
      const paged = page.next !== undefined && items.length > LIMIT;
      const rest = paged ? items.filter((s) => !fresh.has(s.id) && s.updated <= oldest) : [];
      this.#set({
        items: [...page.items, ...rest],
        next: paged ? next : (page.next ?? null),
        loading: false,
        error: null,
      });
    } catch (error) {
      if (!asking.signal.aborted) this.#set({ loading: false, error });
    }
  }

  async more(): Promise<void> {
    const { next, search } = this.#state;
    if (next === null) return;
    const page = await this.api.sessions({
      limit: LIMIT,
      cursor: next,
      ...(search.trim() === '' ? {} : { q: search.trim() }),
    });
    if (this.#state.next !== next || this.#state.search !== search) return;
    const known = new Set(this.#state.items.map((s) => s.id));
    const fresh = page.items.filter((s) => !known.has(s.id));
    this.#set({ items: [...this.#state.items, ...fresh], next: page.next ?? null });
  }

  /** What a session's own page knows sooner. */
  note(session: Session, title: string | null): void {
    if (title !== null) this.#names.set(session.id, title);
    const items = this.#state.items.map((s) =>
      s.id === session.id
        ? { ...s, status: session.status, ...(title === null ? {} : { title }) }
        : s,
    );
    const at = items.findIndex((s) => s.id === session.id);
    const before = this.#state.items[at];
    const after = items[at];
    if (at === -1) {
      if (this.#state.search === '') this.#set({ items: [session, ...items] });
    } else if (before?.status !== after?.status || before?.title !== after?.title) {
      this.#set({ items });
    }
  }

  async remove(id: string): Promise<void> {
    this.#leaving.add(id);
    this.#set({});
    try {
      await this.api.deleteSession(id);
      this.#set({ items: this.#state.items.filter((s) => s.id !== id) });
      this.#leaving.delete(id);
    } catch (error) {
      this.#leaving.delete(id);
      void this.refresh();
      throw error;
    }
  }

  async rename(id: string, title: string): Promise<Session> {
    const session = await this.api.rename(id, title);
    this.#set({ items: this.#state.items.map((s) => (s.id === id ? session : s)) });
    return session;
  }

  #named(session: Session): Session {
    const name = this.#names.get(session.id);
    return session.title != null || name === undefined ? session : { ...session, title: name };
  }

  #set(change: Partial<ListState>): void {
    const next = { ...this.#state, ...change };
    const items = next.items.filter((s) => !this.#leaving.has(s.id)).map((s) => this.#named(s));
    this.#state = { ...next, items };
    for (const listener of [...this.#listeners]) listener();
  }
}

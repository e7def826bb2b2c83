/** What of the server's API the page uses. Every failure is a `Problem` or `Unreachable`. */

import {
  createClient,
  openEvents,
  unwrap,
  type AgentView,
  type Client,
  type ClientOptions,
  type DeliveryWish,
  type Info,
  type MessagePage,
  type NewDecision,
  type PageSessionView,
  type SessionDetail,
  type SessionView,
  type Submitted,
  type WhoAmI,
} from '@turnbuckle/client';
import type { Content } from '../fold';

export type { Info, WhoAmI };
export type Agent = AgentView;
export type Session = SessionView;
export type SessionPage = PageSessionView;
export type Delivery = DeliveryWish;
export type Decision = NewDecision;

export interface SessionSearch {
  readonly q?: string;
  readonly cursor?: string;
  readonly limit?: number;
}

export type { MessagePage, SessionDetail };

export class Api {
  readonly #client: Client;

  constructor(options: ClientOptions = {}) {
    this.#client = createClient(options);
  }

  info = (): Promise<Info> => unwrap(this.#client.GET('/v1/info'));
  whoami = (): Promise<WhoAmI> => unwrap(this.#client.GET('/v1/whoami'));

  agents = async (): Promise<readonly Agent[]> => (await unwrap(this.#client.GET('/v1/agents'))).items;

  sessions = (query: SessionSearch, signal: AbortSignal | null = null): Promise<SessionPage> =>
    unwrap(this.#client.GET('/v1/sessions', { params: { query }, signal }));

  session = (id: string, messages: number, signal: AbortSignal): Promise<SessionDetail> =>
    unwrap(
      this.#client.GET('/v1/sessions/{session}', { params: { ...at(id), query: { messages } }, signal }),
    );

  messages = (id: string, cursor: string, limit: number): Promise<MessagePage> =>
    unwrap(
      this.#client.GET('/v1/sessions/{session}/messages', { params: { ...at(id), query: { cursor, limit } } }),
    );

  createSession = (key: string): Promise<Session> =>
    unwrap(this.#client.POST('/v1/sessions', { params: { ...once(key) }, body: {} }));

  rename = (id: string, title: string): Promise<Session> =>
    unwrap(this.#client.PATCH('/v1/sessions/{session}', { params: at(id), body: { title } }));

  deleteSession = async (id: string): Promise<void> => {
    await unwrap(this.#client.DELETE('/v1/sessions/{session}', { params: at(id) }));
  };

  submit = (id: string, content: Content, delivery: Delivery, key: string): Promise<Submitted> =>
    unwrap(
      this.#client.POST('/v1/sessions/{session}/turns', {
        params: { ...at(id), ...once(key) },
        body: { content: typeof content === 'string' ? content : [...content], delivery },
      }),
    );

  stop = async (id: string): Promise<void> => {
    await unwrap(this.#client.POST('/v1/sessions/{session}/stop', { params: at(id), headers: { 'Idempotency-Key': crypto.randomUUID() } }));
  };

  decide = async (card: string, decision: Decision, key: string): Promise<void> => {
    await unwrap(
      this.#client.POST('/v1/approvals/{approval}', {
        params: { path: { approval: card }, ...once(key) },
        body: decision,
      }),
    );
  };

  /** The events of a session behind `after`; the stream stays open. */
  events = (id: string, after: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> =>
    openEvents(this.#client, id, { after, signal });
}

const at = (session: string) => ({ path: { session } });
/** The same key and request act once, so such a request may be repeated. */
const once = (key: string) => ({ header: { 'Idempotency-Key': key } });

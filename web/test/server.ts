/** A server in the place of `fetch`: what it holds is told by a session's snapshot; behind it nothing happens. */

import { Api } from '../src/client/api';

type Handler = (request: Request) => Response | Promise<Response>;

export const json = (body: unknown, status = 200): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });

export const problem = (status: number, code: string, detail: string): Response => json({ status, code, title: code, detail }, status);

export class FakeServer {
  readonly api = new Api({ url: 'http://turnbuckle.test', fetch: (request) => this.#answer(request) });
  queued: readonly unknown[] = [];
  readonly #handlers = new Map<string, Handler>();

  /** Answers a request such as `PATCH /v1/sessions/s_1`. */
  on(what: string, handler: Handler): this {
    this.#handlers.set(what, handler);
    return this;
  }

  async #answer(request: Request): Promise<Response> {
    const what = `${request.method} ${new URL(request.url).pathname}`;
    const handler = this.#handlers.get(what);
    if (handler !== undefined) return handler(request);
    switch (what) {
      case 'GET /v1/sessions/s_1':
        return json({ session, messages: [], after: '0', queued: this.queued });
      case 'GET /v1/sessions/s_1/events':
        return new Response(new ReadableStream(), { headers: { 'content-type': 'text/event-stream' } });
      default:
        return problem(404, 'not_found', 'There is no such thing, or not for you.');
    }
  }
}

const session = {
  id: 's_1',
  agent: 'desk',
  user: 'ada',
  title: 'Parcels',
  status: 'idle',
  pending: 0,
  last_seq: 0,
  created: '2026-11-28T09:00:00.000Z',
  updated: '2026-11-28T09:00:00.000Z',
};

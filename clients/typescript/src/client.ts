/** Requests to the server, typed by its document. Every failure is a `Problem` or `Unreachable`. */

import createFetchClient, { type Client as FetchClient } from 'openapi-fetch';
import { Backoff, sleep } from './backoff.ts';
import { isPassing, Problem, problemOf, Unreachable } from './problem.ts';
import type { paths } from './schema.ts';

/** `GET`, `POST`, `PATCH` and `DELETE` on the paths of the API. */
export type Client = FetchClient<paths, 'application/json'>;

export interface ClientOptions {
  /** Where the server is, such as `https://agents.example.com`. A page of the server itself leaves it out. */
  readonly url?: string;
  /** An API key or a token; a function when it changes. */
  readonly token?: string | (() => string | null);
  readonly fetch?: (request: Request) => Promise<Response>;
}

/** How often a request that may be repeated is made. */
const ATTEMPTS = 4;

/**
 * A client. Requests that are safe to repeat (reading ones, and those with an `Idempotency-Key`) are repeated when they
 * fail in passing.
 *
 * ```ts
 * const client = createClient({ url: 'http://127.0.0.1:7777' });
 * const session = await unwrap(client.POST('/v1/sessions', { body: { agent: 'desk' } }));
 * ```
 */
export function createClient(options: ClientOptions = {}): Client {
  const { url = '', token, fetch: fetcher = (request) => fetch(request) } = options;
  return createFetchClient<paths, 'application/json'>({
    baseUrl: url.replace(/\/+$/, ''),
    fetch: (request) => {
      const secret = typeof token === 'function' ? token() : token;
      if (secret != null) request.headers.set('authorization', `Bearer ${secret}`);
      return send(fetcher, request);
    },
  });
}

/** What the body of an answer holds. That a request could have been answered by a stream is another matter. */
export type Held<Data> = Exclude<Data, { 'text/event-stream': unknown }>;

/** What an answer holds. */
export async function unwrap<Data>(answer: Promise<{ readonly data?: Data }>): Promise<Held<Data>> {
  try {
    // A failure was thrown by now.
    return (await answer).data as Held<Data>;
  } catch (error) {
    if (error instanceof Problem || error instanceof Unreachable || isAbort(error)) throw error;
    // The answer broke off, or is none of ours.
    throw new Unreachable(error);
  }
}

async function send(fetcher: (request: Request) => Promise<Response>, request: Request): Promise<Response> {
  const backoff = new Backoff();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await attemptOf(fetcher, request.clone());
    } catch (error) {
      request.signal.throwIfAborted();
      if (!isRepeatable(request) || attempt >= ATTEMPTS || !isPassing(error)) throw error;
      const asked = error instanceof Problem ? (error.retryAfter ?? 0) : 0;
      await sleep(Math.max(asked, backoff.next()), request.signal);
      request.signal.throwIfAborted();
    }
  }
}

async function attemptOf(fetcher: (request: Request) => Promise<Response>, request: Request): Promise<Response> {
  let response;
  try {
    response = await fetcher(request);
  } catch (cause) {
    throw new Unreachable(cause);
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** A stream has a reader that tries again by itself, and knows from where. */
function isRepeatable({ method, headers }: Request): boolean {
  if (headers.get('accept') === 'text/event-stream') return false;
  return method === 'GET' || headers.has('idempotency-key');
}

function isAbort(error: unknown): boolean {
  return error instanceof DOMException && (error.name === 'AbortError' || error.name === 'TimeoutError');
}

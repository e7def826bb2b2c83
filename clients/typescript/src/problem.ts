/** Why a request failed, and whether trying again can help. */

import type { FieldError } from './schema.ts';

/** An answer that is a problem document (RFC 9457). `code` is stable, `message` is for people. */
export class Problem extends Error {
  override readonly name = 'Problem';

  constructor(
    readonly status: number,
    readonly code: string,
    title: string,
    readonly detail?: string,
    readonly fields: readonly FieldError[] = [],
    /** Milliseconds after which another try may succeed. */
    readonly retryAfter?: number,
    readonly requestId?: string,
  ) {
    super(detail ?? title);
  }
}

/** No answer came: the server cannot be reached, or the connection broke. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';

  constructor(cause: unknown) {
    super('The server cannot be reached.', { cause });
  }
}

/** Reads the problem an answer carries; an answer of something in between gets a problem of its own. */
export async function problemOf(response: Response): Promise<Problem> {
  const body: unknown = await response.json().catch(() => undefined);
  return problemFrom(body, response);
}

function problemFrom(body: unknown, response: Response): Problem {
  const { status } = response;
  const seconds = Number(response.headers.get('retry-after') ?? NaN);
  const retryAfter = Number.isFinite(seconds) ? seconds * 1000 : undefined;
  const some = typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
  const text = (key: string): string | undefined => {
    const value = some[key];
    return typeof value === 'string' ? value : undefined;
  };
  return new Problem(
    status,
    text('code') ?? `http_${status}`,
    text('title') ?? `The server answered ${status}.`,
    text('detail'),
    Array.isArray(some.errors) ? (some.errors as FieldError[]) : [],
    retryAfter,
    text('request_id') ?? response.headers.get('x-request-id') ?? undefined,
  );
}

/** Whether the same request may succeed a little later. */
export function isPassing(error: unknown): boolean {
  if (error instanceof Unreachable) return true;
  if (!(error instanceof Problem)) return false;
  return error.status >= 500 || error.status === 429 || error.status === 408;
}

/** What to tell a person. */
export function describe(error: unknown): string {
  if (error instanceof Problem) {
    const fields = error.fields.map((f) => `${f.field}: ${f.message}`);
    return fields.length > 0 && error.detail === undefined ? fields.join('; ') : error.message;
  }
  return error instanceof Error ? error.message : String(error);
}

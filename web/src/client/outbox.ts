/**
 * What a page sent and the server has not said it took. It is kept over a reload: a request under way ends with its page,
 * and nobody can tell whether it arrived. Sent again under its key, it is taken once.
 */

import { readStored, writeStored } from '../stored';
import type { Outgoing } from './feed';

/** A page that is opened again after longer than this does not send by itself what it meant to send then. */
const FRESH = 5 * 60_000;

type Kept = Pick<Outgoing, 'key' | 'content' | 'delivery' | 'at'> & { readonly failed: boolean };

const nameOf = (session: string): string => `unsent.${session}`;

/** What an earlier page of this tab left. With an error, it waits for a person. */
export function unsentOf(session: string): readonly Outgoing[] {
  const now = Date.now();
  return readStored<readonly Kept[]>(nameOf(session), []).map(({ failed, ...kept }) => ({
    ...kept,
    turn: null,
    error: failed || now - kept.at > FRESH ? new Error('The page was left before this was sent.') : null,
  }));
}

export function keepUnsent(session: string, outgoing: readonly Outgoing[]): void {
  const unsent = outgoing.filter(({ turn }) => turn === null);
  const kept = unsent.map(({ key, content, delivery, at, error }): Kept => ({ key, content, delivery, at, failed: error !== null }));
  writeStored(nameOf(session), kept);
}

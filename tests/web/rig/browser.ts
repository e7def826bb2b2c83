/** The browser of this machine. None is ever downloaded. */

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

const FIND = join(import.meta.dirname, '..', '..', '..', 'scripts', 'browser');

export function findBrowser(): string {
  return execFileSync(FIND, { encoding: 'utf8' }).trim();
}

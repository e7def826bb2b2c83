import type { Event, TurnFold } from '../src/fold';

export interface Golden {
  readonly name: string;
  readonly events: readonly Event[];
  /** What the server stores of the turn. */
  readonly stored: TurnFold;
}

type File = Omit<Golden, 'name'>;

const files = import.meta.glob<File>('./fixtures/turns/*.json', { eager: true, import: 'default' });

/** Turns that the Rust side played, with the messages it stored. */
export const golden: readonly Golden[] = Object.entries(files).map(([path, file]) => ({
  name: path.slice(path.lastIndexOf('/') + 1),
  ...file,
}));

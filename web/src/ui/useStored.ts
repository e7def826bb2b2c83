import { useCallback, useState } from 'react';
import { readStored, writeStored } from '../stored';

/** State that survives a reload of this page, such as a text that is being written. */
export function useStored<T>(name: string, initial: T): readonly [T, (change: T | ((now: T) => T)) => void] {
  const [held, setHeld] = useState(() => ({ name, value: readStored(name, initial) }));
  // Another name is another state.
  const current = held.name === name ? held : { name, value: readStored(name, initial) };
  if (current !== held) setHeld(current);
  const set = useCallback(
    (change: T | ((now: T) => T)) => {
      setHeld((now) => {
        const base = now.name === name ? now.value : readStored(name, initial);
        const value = typeof change === 'function' ? (change as (now: T) => T)(base) : change;
        writeStored(name, value);
        return { name, value };
      });
    },
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the initial value counts once
    [name],
  );
  return [current.value, set];
}

import { useCallback, useState } from 'react';

/** State that survives a reload of this page, such as a text that is being written. */
export function useStored<T>(name: string, initial: T): readonly [T, (change: T | ((now: T) => T)) => void] {
  const key = `turnbuckle.${name}`;
  const [held, setHeld] = useState(() => ({ key, value: read(key, initial) }));
  // Another name is another state.
  const current = held.key === key ? held : { key, value: read(key, initial) };
  if (current !== held) setHeld(current);
  const set = useCallback(
    (change: T | ((now: T) => T)) => {
      setHeld((now) => {
        const base = now.key === key ? now.value : read(key, initial);
        const value = typeof change === 'function' ? (change as (now: T) => T)(base) : change;
        write(key, value);
        return { key, value };
      });
    },
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the initial value counts once
    [key],
  );
  return [current.value, set];
}

function read<T>(key: string, initial: T): T {
  try {
    const text = sessionStorage.getItem(key);
    return text === null ? initial : (JSON.parse(text) as T);
  } catch {
    return initial;
  }
}

function write(key: string, value: unknown): void {
  try {
    if (value === '' || JSON.stringify(value) === '{}') sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Without storage a reload forgets it.
  }
}

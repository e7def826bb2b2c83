/** What this page keeps over a reload; another tab has its own. Without storage, a reload forgets it. */

export function readStored<T>(name: string, initial: T): T {
  try {
    const text = sessionStorage.getItem(keyOf(name));
    return text === null ? initial : (JSON.parse(text) as T);
  } catch {
    return initial;
  }
}

/** What says nothing (an empty text, list or object) is not kept. */
export function writeStored(name: string, value: unknown): void {
  try {
    const text = JSON.stringify(value);
    if (text === '""' || text === '[]' || text === '{}') sessionStorage.removeItem(keyOf(name));
    else sessionStorage.setItem(keyOf(name), text);
  } catch {
    // There is none, or no room in it.
  }
}

const keyOf = (name: string): string => `turnbuckle.${name}`;

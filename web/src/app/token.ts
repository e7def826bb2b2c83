/** The API key or token of this browser tab. It is gone when the tab is. */

const KEY = 'turnbuckle.token';

let held: string | null = read();

function read(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function token(): string | null {
  return held;
}

export function setToken(value: string | null): void {
  held = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch {
    // Without storage a reload asks again.
  }
}

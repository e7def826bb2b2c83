/** Where one is: the beginning of a new chat, or a session. */

import { useSyncExternalStore } from 'react';

export type Place = { readonly is: 'new' } | { readonly is: 'session'; readonly id: string };

export function placeOf(path: string): Place {
  const id = /^\/s\/([^/]+)\/?$/.exec(path)?.[1];
  return id === undefined ? { is: 'new' } : { is: 'session', id: decoded(id) };
}

/** What cannot be decoded names no session; the server says so. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function pathOf(place: Place): string {
  return place.is === 'new' ? '/' : `/s/${encodeURIComponent(place.id)}`;
}

const listeners = new Set<() => void>();

export function go(place: Place, how: 'push' | 'replace' = 'push'): void {
  const path = pathOf(place);
  if (path === location.pathname) return;
  if (how === 'push') history.pushState(null, '', path);
  else history.replaceState(null, '', path);
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener('popstate', listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener('popstate', listener);
  };
}

export function usePlace(): Place {
  const path = useSyncExternalStore(subscribe, () => location.pathname);
  return placeOf(path);
}

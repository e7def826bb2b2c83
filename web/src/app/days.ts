/** Sessions by when they were last at work, in the reader's own days. */

import type { Session } from '../client/api';

export interface Group {
  readonly name: string;
  readonly items: readonly Session[];
}

const DAY = 86_400_000;

export function grouped(sessions: readonly Session[], now: number): readonly Group[] {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const nameOf = (at: number): string => {
    if (at >= midnight) return 'Today';
    if (at >= midnight - DAY) return 'Yesterday';
    if (at >= midnight - 7 * DAY) return 'Last seven days';
    if (at >= midnight - 30 * DAY) return 'Last thirty days';
    return 'Older';
  };
  const groups = new Map<string, Session[]>();
  for (const session of sessions) {
    const name = nameOf(Date.parse(session.updated));
    groups.set(name, [...(groups.get(name) ?? []), session]);
  }
  return [...groups].map(([name, items]) => ({ name, items }));
}

export function ago(at: string, now: number): string {
  const minutes = Math.max(0, Math.round((now - Date.parse(at)) / 60_000));
  if (minutes < 1) return 'now';
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  if (hours < 24) return `${hours} h`;
  const days = Math.round(hours / 24);
  return days < 31 ? `${days} d` : new Date(at).toLocaleDateString('en', { month: 'short', year: 'numeric' });
}

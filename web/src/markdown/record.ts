/** Records of the product as they stand in snapshots and blocks: an object with a name and some facts. */

import type { Json } from '../fold';

export interface Fact {
  readonly label: string;
  readonly value: string;
}

export interface RecordView {
  readonly id: string;
  readonly kind: string | null;
  readonly name: string;
  readonly snippet: string | null;
  readonly facts: readonly Fact[];
  readonly missing: boolean;
}

const SHOWN_APART = new Set(['id', 'kind', 'name', 'snippet', 'missing']);

export function isObject(value: Json | undefined): value is Readonly<Record<string, Json>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function recordOf(value: Json | undefined, fallback: string): RecordView {
  const map = isObject(value) ? value : {};
  const text = (key: string): string | null => {
    const found = map[key];
    return typeof found === 'string' && found !== '' ? found : null;
  };
  const id = text('id') ?? fallback;
  return {
    id,
    kind: text('kind') ?? kindOf(id),
    name: text('name') ?? id,
    snippet: text('snippet'),
    missing: map.missing === true || !isObject(value),
    facts: Object.entries(map).flatMap(([key, item]) => {
      if (SHOWN_APART.has(key)) return [];
      const shown = plain(item);
      return shown === null ? [] : [{ label: wordsOf(key), value: shown }];
    }),
  };
}

function kindOf(id: string): string | null {
  const at = id.indexOf(':');
  return at > 0 ? id.slice(0, at) : null;
}

/** A value in a few words; `null` when there is nothing to say. */
export function plain(value: Json | undefined): string | null {
  if (value === null || value === undefined || value === '' || value === false) return null;
  if (value === true) return 'yes';
  if (typeof value === 'number') return value.toLocaleString('en');
  if (typeof value === 'string') return moment(value) ?? value;
  if (Array.isArray(value)) {
    const items = (value as readonly Json[]).map(plain).filter((item) => item !== null);
    return items.length === 0 ? null : items.join(', ');
  }
  const named = isObject(value) ? (value.name ?? value.label ?? value.title) : undefined;
  return typeof named === 'string' ? named : null;
}

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/;
const format = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short' });

/** A moment in time as people write it. */
function moment(text: string): string | null {
  if (!ISO.test(text)) return null;
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? null : format.format(at);
}

/** `last_message_at` as words. */
export function wordsOf(key: string): string {
  const words = key
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replaceAll(/[_-]+/g, ' ')
    .trim()
    .toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

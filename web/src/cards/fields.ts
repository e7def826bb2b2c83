/**
 * The fields of a card: what the schema lets a person change, with the value that will run. Schemas come from tools, so
 * anything not understood becomes a JSON field rather than nothing.
 */

import { sameJson, type Json } from '../fold';
import { isObject, wordsOf } from '../markdown/record';

export type FieldKind =
  | { readonly is: 'line'; readonly maxLength: number | null; readonly input: 'text' | 'email' | 'url' | 'date' | 'time' }
  | { readonly is: 'text'; readonly maxLength: number | null }
  | {
      readonly is: 'number';
      readonly integer: boolean;
      readonly min: number | null;
      readonly max: number | null;
    }
  | { readonly is: 'flag' }
  | { readonly is: 'choice'; readonly options: readonly string[] }
  /** A list of texts, one a line. */
  | { readonly is: 'lines' }
  | { readonly is: 'json' };

export interface Field {
  readonly name: string;
  readonly label: string;
  readonly hint: string | null;
  readonly kind: FieldKind;
  readonly value: Json | undefined;
  /** Whether `null` or absence is a value of it. */
  readonly optional: boolean;
}

/** What a person has typed into a field. */
export type Draft = string | boolean;

type Schema = Readonly<Record<string, Json>>;

/** The fields that may be changed, in the schema's order. */
export function fieldsOf(editable: Json | undefined, args: Json): readonly Field[] {
  if (!isObject(editable) || !isObject(editable.properties)) return [];
  const values = isObject(args) ? args : {};
  return Object.entries(editable.properties).map(([name, raw]): Field => {
    const { schema, optional } = resolve(raw, editable);
    const value = values[name];
    const title = schema.title;
    const description = schema.description;
    return {
      name,
      label: typeof title === 'string' ? title : wordsOf(name),
      hint: typeof description === 'string' ? description : null,
      kind: kindOf(schema, value),
      value,
      optional: optional || value === undefined || value === null,
    };
  });
}

/** Whether there is nothing in it that would run. */
export function isEmpty({ value }: Field): boolean {
  return value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);
}

/** Follows references and drops the `null` of optional values. */
function resolve(raw: Json, root: Schema, depth = 0): { readonly schema: Schema; readonly optional: boolean } {
  if (!isObject(raw) || depth > 8) return { schema: {}, optional: false };
  const reference = raw.$ref;
  if (typeof reference === 'string') {
    const found = reference.startsWith('#/') ? walk(root, reference.slice(2).split('/')) : undefined;
    const { schema, optional } = resolve(found ?? {}, root, depth + 1);
    return { schema: { ...schema, ...raw }, optional };
  }
  for (const key of ['anyOf', 'oneOf', 'allOf']) {
    const some = raw[key];
    if (!Array.isArray(some)) continue;
    const all = some as readonly Json[];
    const real = all.filter((item) => !(isObject(item) && item.type === 'null'));
    const only = real[0];
    if (real.length === 1 && only !== undefined) {
      const { schema, optional } = resolve(only, root, depth + 1);
      return { schema: { ...schema, ...raw }, optional: optional || all.length > 1 };
    }
    // A choice between constants, each with a description of its own.
    const constants = real.map((item) => constantsOf(isObject(item) ? resolve(item, root, depth + 1).schema : {}));
    if (constants.every((values) => values.length > 0)) {
      return { schema: { ...raw, enum: constants.flat() }, optional: real.length < all.length };
    }
  }
  const type = raw.type;
  if (Array.isArray(type)) {
    const types = (type as readonly Json[]).filter((item) => item !== 'null');
    const only = types.length === 1 ? types[0] : undefined;
    return { schema: { ...raw, ...(only === undefined ? {} : { type: only }) }, optional: types.length < type.length };
  }
  return { schema: raw, optional: false };
}

function constantsOf(schema: Schema): readonly Json[] {
  if (schema.const !== undefined) return [schema.const];
  return Array.isArray(schema.enum) ? (schema.enum as readonly Json[]) : [];
}

function walk(value: Json | undefined, path: readonly string[]): Json | undefined {
  return path.reduce<Json | undefined>((at, step) => (isObject(at) ? at[step] : undefined), value);
}

function kindOf(schema: Schema, value: Json | undefined): FieldKind {
  const options = constantsOf(schema).filter((item): item is string => typeof item === 'string');
  if (options.length > 0) return { is: 'choice', options };
  const number = (key: string): number | null => (typeof schema[key] === 'number' ? schema[key] : null);
  switch (schema.type) {
    case 'string': {
      const maxLength = number('maxLength');
      const input = INPUTS[typeof schema.format === 'string' ? schema.format : ''];
      if (input !== undefined) return { is: 'line', maxLength, input };
      const text = typeof value === 'string' ? value : '';
      const long = text.length > 60 || text.includes('\n') || (maxLength !== null && maxLength > 200);
      return long ? { is: 'text', maxLength } : { is: 'line', maxLength, input: 'text' };
    }
    case 'number':
    case 'integer':
      return {
        is: 'number',
        integer: schema.type === 'integer',
        min: number('minimum'),
        max: number('maximum'),
      };
    case 'boolean':
      return { is: 'flag' };
    case 'array': {
      const items = schema.items;
      const texts = isObject(items) && items.type === 'string' && constantsOf(items).length === 0;
      return texts ? { is: 'lines' } : { is: 'json' };
    }
    default:
      return { is: 'json' };
  }
}

const INPUTS: Readonly<Record<string, 'email' | 'url' | 'date' | 'time'>> = {
  email: 'email',
  uri: 'url',
  date: 'date',
  time: 'time',
};

/** The field's value as it is typed. */
export function draftOf({ kind, value }: Field): Draft {
  switch (kind.is) {
    case 'flag':
      return value === true;
    case 'lines':
      return Array.isArray(value) ? (value as readonly Json[]).map(String).join('\n') : '';
    case 'json':
      return value === undefined ? '' : JSON.stringify(value, null, 2);
    case 'line':
    case 'text':
    case 'choice':
      return typeof value === 'string' ? value : '';
    case 'number':
      return typeof value === 'number' ? String(value) : '';
  }
}

export type Read =
  | { readonly is: 'value'; readonly value: Json }
  /** Left empty, as it was. */
  | { readonly is: 'absent' }
  | { readonly is: 'wrong'; readonly why: string };

/** What was typed as a value, or what is wrong with it. */
export function readDraft({ kind, optional, value }: Field, draft: Draft): Read {
  if (typeof draft === 'boolean') return { is: 'value', value: draft };
  const wrong = (why: string): Read => ({ is: 'wrong', why });
  const empty = draft.trim() === '';
  switch (kind.is) {
    case 'flag':
      return { is: 'value', value: draft === 'true' };
    case 'line':
    case 'text':
    case 'choice':
      if (empty && optional) return value === undefined ? { is: 'absent' } : { is: 'value', value: null };
      if ((kind.is === 'line' || kind.is === 'text') && kind.maxLength !== null && draft.length > kind.maxLength) {
        return wrong(`At most ${kind.maxLength} characters; these are ${draft.length}.`);
      }
      return { is: 'value', value: draft };
    case 'lines': {
      const lines = draft
        .split('\n')
        .map((line) => line.trim())
        .filter((line) => line !== '');
      if (lines.length === 0 && value === undefined) return { is: 'absent' };
      if (lines.length === 0 && value === null) return { is: 'value', value: null };
      return { is: 'value', value: lines };
    }
    case 'number': {
      if (empty) {
        if (!optional) return wrong('A number is needed.');
        return value === undefined ? { is: 'absent' } : { is: 'value', value: null };
      }
      const number = Number(draft);
      if (!Number.isFinite(number)) return wrong('This is not a number.');
      if (kind.integer && !Number.isInteger(number)) return wrong('A whole number is needed.');
      if (kind.min !== null && number < kind.min) return wrong(`At least ${kind.min}.`);
      if (kind.max !== null && number > kind.max) return wrong(`At most ${kind.max}.`);
      return { is: 'value', value: number };
    }
    case 'json':
      if (empty) return value === undefined ? { is: 'absent' } : { is: 'value', value: null };
      try {
        return { is: 'value', value: JSON.parse(draft) as Json };
      } catch (error) {
        return wrong(error instanceof Error ? error.message : 'This is not JSON.');
      }
  }
}

export interface Amendment {
  /** Only what differs from what would run. */
  readonly changed: Readonly<Record<string, Json>>;
  readonly wrong: Readonly<Record<string, string>>;
}

/** What the drafts change. */
export function amendmentOf(fields: readonly Field[], drafts: Readonly<Record<string, Draft>>): Amendment {
  const changed: Record<string, Json> = {};
  const wrong: Record<string, string> = {};
  for (const field of fields) {
    const draft = drafts[field.name];
    // What nobody touched is as it was, even where it would be typed another way.
    if (draft === undefined || draft === draftOf(field)) continue;
    const read = readDraft(field, draft);
    if (read.is === 'wrong') wrong[field.name] = read.why;
    else if (read.is === 'value' && !sameJson(read.value, field.value)) changed[field.name] = read.value;
  }
  return { changed, wrong };
}

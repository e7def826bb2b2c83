// Writes src/schema.ts from openapi.json; with --check it says whether that is up to date.
import { readFile, writeFile } from 'node:fs/promises';
import openapiTS, { astToString, COMMENT_HEADER } from 'openapi-typescript';
import ts from 'typescript';

const target = new URL('src/schema.ts', import.meta.url);

// A description cannot say that a value is JSON without going in circles; a type can.
const JSON_VALUE = `/** Any JSON value. */
export type JsonValue =
    | null
    | boolean
    | number
    | string
    | readonly JsonValue[]
    | { readonly [key: string]: JsonValue };`;

const types = await openapiTS(new URL('openapi.json', import.meta.url), {
  defaultNonNullable: false,
  emptyObjectsUnknown: true,
  inject: JSON_VALUE,
  rootTypes: true,
  rootTypesNoSchemaPrefix: true,
  silent: true,
  transform: (_, { path }) =>
    path === '#/components/schemas/Json' ? ts.factory.createTypeReferenceNode('JsonValue') : undefined,
});
const text = COMMENT_HEADER + astToString(types);

if (!process.argv.includes('--check')) {
  await writeFile(target, text);
} else if ((await readFile(target, 'utf8')) !== text) {
  process.exit(1);
}

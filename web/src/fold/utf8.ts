/** Offsets of the stream count UTF-8 bytes; JavaScript counts UTF-16 units. */

function bytesOf(codePoint: number): number {
  if (codePoint < 0x80) return 1;
  if (codePoint < 0x800) return 2;
  return codePoint < 0x10000 ? 3 : 4;
}

/** Bytes of `text` in UTF-8. */
export function byteLength(text: string): number {
  let bytes = 0;
  for (const char of text) bytes += bytesOf(char.codePointAt(0) ?? 0);
  return bytes;
}

/**
 * What follows the first `bytes` bytes of `text`; `undefined` when that is within a character, the empty string when
 * the text is not longer.
 */
export function afterBytes(text: string, bytes: number): string | undefined {
  let seen = 0;
  let index = 0;
  for (const char of text) {
    if (seen >= bytes) break;
    seen += bytesOf(char.codePointAt(0) ?? 0);
    index += char.length;
  }
  return seen > bytes ? undefined : text.slice(index);
}

/** Reads `text/event-stream`. */

/** One frame as it stands on the wire. A field that did not come is `undefined`. */
export interface Frame {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string | undefined;
  /** Milliseconds to wait before connecting again. */
  readonly retry: number | undefined;
}

/** Turns pieces of text into frames, wherever the pieces were cut. */
export class FrameParser {
  #rest = '';
  #lines: string[] = [];
  #begun = false;

  push(piece: string): Frame[] {
    let text = this.#rest + piece;
    if (!this.#begun && text !== '') {
      this.#begun = true;
      if (text.startsWith('\uFEFF')) text = text.slice(1);
    }
    const frames: Frame[] = [];
    let from = 0;
    for (;;) {
      const end = nextBreak(text, from);
      if (end === -1) break;
      const line = text.slice(from, end);
      from = end + (text.startsWith('\r\n', end) ? 2 : 1);
      if (line !== '') {
        this.#lines.push(line);
        continue;
      }
      const frame = frameOf(this.#lines);
      this.#lines = [];
      if (frame !== undefined) frames.push(frame);
    }
    this.#rest = text.slice(from);
    return frames;
  }
}

/** The next line break; one that may be the first half of `\r\n` is left for the next piece. */
function nextBreak(text: string, from: number): number {
  for (let i = from; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code === 10) return i;
    if (code === 13) return i + 1 < text.length ? i : -1;
  }
  return -1;
}

function frameOf(lines: readonly string[]): Frame | undefined {
  let id: string | undefined;
  let event: string | undefined;
  let retry: number | undefined;
  const data: string[] = [];
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon === 0) continue;
    const field = colon === -1 ? line : line.slice(0, colon);
    const raw = colon === -1 ? '' : line.slice(colon + 1);
    const value = raw.startsWith(' ') ? raw.slice(1) : raw;
    if (field === 'data') data.push(value);
    else if (field === 'event') event = value;
    else if (field === 'id' && !value.includes('\0')) id = value;
    else if (field === 'retry' && /^\d+$/.test(value)) retry = Number(value);
  }
  if (id === undefined && event === undefined && retry === undefined && data.length === 0) {
    return undefined;
  }
  return { id, event, data: data.length === 0 ? undefined : data.join('\n'), retry };
}

/**
 * The frames of a body, those that came together as one list, so that a reader may draw once for all of them. An empty
 * list is a sign of life.
 */
export async function* framesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame[]> {
  const parser = new FrameParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FrameParser, framesOf, type Frame } from '../src/sse.ts';

const frame = (some: Partial<Frame>): Frame => ({
  id: undefined,
  event: undefined,
  data: undefined,
  retry: undefined,
  ...some,
});

const stream = [
  'retry: 1000\n\n',
  'id: 119\ndata: {"seq":119}\n\n',
  ': keep-alive\n\n',
  'id: 124.0\r\ndata: one\r\ndata:two\r\n\r\n',
  'id: 140\n\n',
  'event: turn-end\rdata: {"é":"日本 😀"}\r\r',
].join('');

const expected = [
  frame({ retry: 1000 }),
  frame({ id: '119', data: '{"seq":119}' }),
  frame({ id: '124.0', data: 'one\ntwo' }),
  frame({ id: '140' }),
  frame({ event: 'turn-end', data: '{"é":"日本 😀"}' }),
];

describe('frames', () => {
  test('are the same wherever the stream is cut', async () => {
    const bytes = new TextEncoder().encode(`${stream}\n`);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length)), async (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), bytes.length];
        const body = new ReadableStream<Uint8Array>({
          start(controller) {
            for (let i = 1; i < at.length; i += 1) {
              controller.enqueue(bytes.slice(at[i - 1], at[i]));
            }
            controller.close();
          },
        });
        const found: Frame[] = [];
        for await (const frames of framesOf(body)) found.push(...frames);
        expect(found).toEqual(expected);
      }),
    );
  });

  test('begin after a byte order mark and ignore fields that are not known', () => {
    expect(new FrameParser().push('\uFEFFdata: a\nfoo: b\nid: x\0y\nretry: soon\n\n')).toEqual([
      frame({ data: 'a' }),
    ]);
  });

  test('may be empty: data without a value is data', () => {
    expect(new FrameParser().push('data\n\n')).toEqual([frame({ data: '' })]);
  });
});

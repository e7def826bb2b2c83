/**
 * Markdown that grows. Each piece of text costs a parse of the last block only; blocks before it keep their identity, so
 * that they are not drawn again.
 */

import type { RootContent } from 'mdast';
import { fromMarkdown } from 'mdast-util-from-markdown';
import { gfmFromMarkdown } from 'mdast-util-gfm';
import { gfm } from 'micromark-extension-gfm';
import remend from 'remend';

export interface Block {
  /** Where it begins in the text. */
  readonly start: number;
  /** Its own text; two blocks of the same text look the same. */
  readonly source: string;
  readonly node: RootContent;
}

export interface Parsed {
  readonly text: string;
  readonly blocks: readonly Block[];
}

export const nothing: Parsed = { text: '', blocks: [] };

/** Whether the text is whole, or more of it comes and its end may be half a word of syntax. */
export type Growth = 'whole' | 'growing';

const options = { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] };

/** Parses `text`, using what is known of a shorter form of it. */
export function parse(known: Parsed, text: string, growth: Growth): Parsed {
  const last = known.blocks.at(-1);
  const extended = last !== undefined && text.startsWith(known.text) && !hasDefinitions(text);
  const from = extended ? last.start : 0;
  const kept = extended ? known.blocks.slice(0, -1) : [];
  const tail = text.slice(from);
  const parsed = blocksOf(growth === 'growing' ? remend(tail) : tail, from);
  return {
    text,
    blocks: [...kept, ...parsed.map((block, i) => reuse(block, known.blocks[kept.length + i]))],
  };
}

/** Remembers what was parsed before. That only saves work: the result is the same without it. */
export class GrowingParser {
  #known = nothing;

  parse(text: string, growth: Growth): readonly Block[] {
    this.#known = parse(this.#known, text, growth);
    return this.#known.blocks;
  }
}

function blocksOf(text: string, from: number): readonly Block[] {
  return fromMarkdown(text, options).children.map((node) => {
    const start = node.position?.start.offset ?? 0;
    const end = node.position?.end.offset ?? text.length;
    return { start: from + start, source: text.slice(start, end), node };
  });
}

function reuse(block: Block, known: Block | undefined): Block {
  return known?.start === block.start && known.source === block.source ? known : block;
}

/** Definitions at the end of a text give meaning to links before them. */
function hasDefinitions(text: string): boolean {
  return text.includes(']:') && /^ {0,3}\[[^\]]+\]:/m.test(text);
}

import { Lightbulb } from 'lucide-react';
import { memo } from 'react';
import type { ThinkingPart } from '../fold';
import { Markdown } from '../markdown/Markdown';
import { Line } from './Line';

export const ThinkingLine = memo(function ThinkingLine({ part, live }: { readonly part: ThinkingPart; readonly live: boolean }) {
  const digest = lastThought(part.text, live);
  return (
    <Line
      icon={<Lightbulb size={14} />}
      tone={live ? 'live' : 'calm'}
      title={live ? 'Thinking' : 'Thought'}
      digest={digest}
    >
      {part.text === '' ? undefined : <Markdown text={part.text} growth={live ? 'growing' : 'whole'} />}
    </Line>
  );
});

/** While it grows its newest line, then its first one. */
function lastThought(text: string, live: boolean): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const line = (live ? lines.at(-1) : lines[0]) ?? '';
  return line.replaceAll(/[*_`#>]+/g, '').trim();
}

import { CornerDownRight } from 'lucide-react';
import { memo } from 'react';
import type { AssistantMessage, Content, InputPart, Part, SystemMessage, TextPart } from '../fold';
import { Markdown } from '../markdown/Markdown';
import { PlainText } from '../markdown/PlainText';
import { Steps, type Step } from './Steps';
import styles from './MessageParts.module.css';

export interface MessagePartsProps {
  readonly message: AssistantMessage;
  readonly cards: readonly SystemMessage[];
}

/** What an assistant said and did, in order. */
export const MessageParts = memo(function MessageParts({ message, cards }: MessagePartsProps) {
  const running = message.state.state === 'running';
  const groups = grouped(message.parts);
  return (
    <div className={styles.parts}>
      {groups.map((group, i) => {
        const last = i === groups.length - 1;
        switch (group.is) {
          case 'text':
            return (
              <Markdown
                key={group.index}
                text={group.part.text}
                growth={running && last ? 'growing' : 'whole'}
                snapshots={message.link_snapshots}
              />
            );
          case 'steps':
            return <Steps key={group.index} steps={group.steps} cards={cards} live={running && last} />;
          case 'steering':
            return <Steering key={group.index} part={group.part} />;
        }
      })}
    </div>
  );
});

function Steering({ part }: { readonly part: InputPart }) {
  return (
    <div className={styles.steering} data-steering>
      <CornerDownRight size={14} aria-label="You added" />
      <PlainText text={textOf(part.content)} />
    </div>
  );
}

/** The text of a message; its pictures and files by name. */
export function textOf(content: Content): string {
  if (typeof content === 'string') return content;
  return content
    .map((part) => (part.type === 'text' ? part.text : `[${part.name ?? part.mime}]`))
    .join('\n');
}

type Group =
  | { readonly is: 'text'; readonly index: number; readonly part: TextPart }
  | { readonly is: 'steps'; readonly index: number; readonly steps: readonly Step[] }
  | { readonly is: 'steering'; readonly index: number; readonly part: InputPart };

/** Texts stand alone, steps between them belong together. What the engine told the model is not for the reader. */
function grouped(parts: readonly Part[]): readonly Group[] {
  const groups: Group[] = [];
  parts.forEach((part, index) => {
    switch (part.type) {
      case 'text':
        if (part.text.trim() !== '') groups.push({ is: 'text', index, part });
        break;
      case 'input':
        if (part.kind === 'steering') groups.push({ is: 'steering', index, part });
        break;
      case 'native':
        break;
      case 'thinking':
      case 'tool_call': {
        if (part.type === 'thinking' && part.text.trim() === '') break;
        const last = groups.at(-1);
        if (last?.is === 'steps') groups[groups.length - 1] = { ...last, steps: [...last.steps, { index, part }] };
        else groups.push({ is: 'steps', index, steps: [{ index, part }] });
        break;
      }
    }
  });
  return groups;
}

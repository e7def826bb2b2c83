import type { AlignType, RootContent, Table } from 'mdast';
import { memo, useMemo, useState, type ReactNode } from 'react';
import type { Json } from '../fold';
import { CodeBlock } from './CodeBlock';
import { ProductBlock } from './ProductBlock';
import { RecordLink } from './RecordLink';
import { targetOf } from './links';
import { GrowingParser, type Growth } from './parse';
import styles from './Markdown.module.css';

export interface MarkdownProps {
  readonly text: string;
  readonly growth?: Growth;
  /** What is known of the records that the text links to, by address. */
  readonly snapshots?: Readonly<Record<string, Json>> | undefined;
}

/** A text of the model. There is no way from it to HTML: nodes become elements, and HTML in it stays text. */
export const Markdown = memo(function Markdown({ text, growth = 'whole', snapshots }: MarkdownProps) {
  const blocks = useBlocks(text, growth);
  return (
    <div className={styles.text} data-markdown>
      {blocks.map((block, i) => (
        <Node key={block.start} node={block.node} snapshots={snapshots} growing={growth === 'growing' && i === blocks.length - 1} />
      ))}
    </div>
  );
});

function useBlocks(text: string, growth: Growth) {
  const [parser] = useState(() => new GrowingParser());
  return useMemo(() => parser.parse(text, growth), [parser, text, growth]);
}

interface NodeProps {
  readonly node: RootContent;
  readonly snapshots: Readonly<Record<string, Json>> | undefined;
  /** Whether more of it may come. */
  readonly growing?: boolean;
}

const Node = memo(function Node({ node, snapshots, growing = false }: NodeProps): ReactNode {
  const inside = (nodes: readonly RootContent[]) =>
    nodes.map((child, i) => <Node key={i} node={child} snapshots={snapshots} growing={growing} />);
  switch (node.type) {
    case 'text':
      return node.value;
    case 'paragraph':
      return <p>{inside(node.children)}</p>;
    case 'heading': {
      // The page has its own first levels.
      const Level = (['h3', 'h4', 'h5', 'h6', 'h6', 'h6'] as const)[node.depth - 1] ?? 'h6';
      return <Level>{inside(node.children)}</Level>;
    }
    case 'emphasis':
      return <em>{inside(node.children)}</em>;
    case 'strong':
      return <strong>{inside(node.children)}</strong>;
    case 'delete':
      return <del>{inside(node.children)}</del>;
    case 'inlineCode':
      return <code>{node.value}</code>;
    case 'break':
      return <br />;
    case 'thematicBreak':
      return <hr />;
    case 'blockquote':
      return <blockquote>{inside(node.children)}</blockquote>;
    case 'list':
      return node.ordered === true ? (
        <ol start={node.start ?? 1}>{inside(node.children)}</ol>
      ) : (
        <ul>{inside(node.children)}</ul>
      );
    case 'listItem':
      return (
        <li className={typeof node.checked === 'boolean' ? styles.task : undefined}>
          {typeof node.checked === 'boolean' && (
            <input type="checkbox" checked={node.checked} disabled aria-label={node.checked ? 'done' : 'open'} />
          )}
          {node.spread !== true && node.children.length > 0 ? tight(node.children, inside) : inside(node.children)}
        </li>
      );
    case 'code':
      return node.lang?.includes(':') === true ? (
        <ProductBlock kind={node.lang} body={node.value} growing={growing} />
      ) : (
        <CodeBlock language={node.lang ?? null} code={node.value} />
      );
    case 'table':
      return <TableView table={node} snapshots={snapshots} />;
    case 'link': {
      const label = inside(node.children);
      const target = targetOf(node.url);
      if (target.is === 'record') {
        return (
          <RecordLink address={target.address} snapshot={snapshots?.[target.address]}>
            {label}
          </RecordLink>
        );
      }
      if (target.is === 'none') return <span className={styles.dead}>{label}</span>;
      return (
        <a href={target.href} target="_blank" rel="noopener noreferrer nofollow">
          {label}
        </a>
      );
    }
    case 'image': {
      // A picture would be fetched without asking, and its address may carry what the model has read.
      const target = targetOf(node.url);
      const label = node.alt === '' || node.alt == null ? node.url : node.alt;
      if (target.is !== 'web') return <span className={styles.dead}>{label}</span>;
      return (
        <a href={target.href} target="_blank" rel="noopener noreferrer nofollow">
          Picture: {label}
        </a>
      );
    }
    case 'html':
      return <span className={styles.literal}>{node.value}</span>;
    case 'footnoteReference':
      return <sup>[{node.label ?? node.identifier}]</sup>;
    case 'footnoteDefinition':
      return (
        <div className={styles.footnote}>
          <sup>[{node.label ?? node.identifier}]</sup>
          <div>{inside(node.children)}</div>
        </div>
      );
    case 'linkReference':
      return <>{inside(node.children)}</>;
    case 'imageReference':
      return node.alt ?? '';
    case 'definition':
    case 'yaml':
    case 'tableRow':
    case 'tableCell':
      return null;
  }
});

/** The items of a list without blank lines have no paragraphs of their own. */
function tight(
  children: readonly RootContent[],
  inside: (nodes: readonly RootContent[]) => ReactNode,
): ReactNode {
  return children.map((child, i) =>
    child.type === 'paragraph' ? <span key={i}>{inside(child.children)}</span> : <div key={i}>{inside([child])}</div>,
  );
}

function TableView({ table, snapshots }: { readonly table: Table } & Pick<NodeProps, 'snapshots'>) {
  const [head, ...rows] = table.children;
  const style = (align: AlignType | undefined) => (align ? { textAlign: align } : undefined);
  return (
    <div className={styles.scroll} tabIndex={0} role="region" aria-label="Table">
      <table>
        {head && (
          <thead>
            <tr>
              {head.children.map((cell, i) => (
                <th key={i} scope="col" style={style(table.align?.[i])}>
                  {cell.children.map((child, j) => (
                    <Node key={j} node={child} snapshots={snapshots} />
                  ))}
                </th>
              ))}
            </tr>
          </thead>
        )}
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {row.children.map((cell, j) => (
                <td key={j} style={style(table.align?.[j])}>
                  {cell.children.map((child, k) => (
                    <Node key={k} node={child} snapshots={snapshots} />
                  ))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

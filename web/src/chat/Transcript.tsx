import { ArrowDown } from 'lucide-react';
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type ReactNode } from 'react';
import { More } from '../ui/More';
import styles from './Transcript.module.css';

export interface TranscriptProps {
  readonly children: ReactNode;
  /** Rises whenever the reader did something that should bring the end into view. */
  readonly jump: number;
  /** What stands in front of the first message. */
  readonly earlier: (() => Promise<void>) | null;
  /** What identifies the first message, to notice that earlier ones came. */
  readonly first: string | undefined;
}

/** Pixels from the end within which one still reads along. */
const NEAR = 64;

/** A conversation that stays at its end while it grows, until the reader scrolls away from it. */
export function Transcript({ children, jump, earlier, first }: TranscriptProps) {
  const outer = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const [away, setAway] = useState(false);

  const toEnd = useCallback((behavior: ScrollBehavior = 'auto') => {
    const box = outer.current;
    if (box === null) return;
    following.current = true;
    setAway(false);
    box.scrollTo({ top: box.scrollHeight, behavior });
  }, []);

  useLayoutEffect(() => toEnd(), [jump, toEnd]);

  useEffect(() => {
    const content = inner.current;
    const box = outer.current;
    if (content === null || box === null) return;
    const follow = new ResizeObserver(() => {
      if (following.current) box.scrollTop = box.scrollHeight;
    });
    follow.observe(content);
    follow.observe(box);
    return () => follow.disconnect();
  }, []);

  // What comes in front must not move what is being read.
  const before = useRef<{ readonly first: string | undefined; readonly height: number }>({ first, height: 0 });
  useLayoutEffect(() => {
    const box = outer.current;
    if (box === null) return;
    const { first: known, height } = before.current;
    if (known !== undefined && known !== first && !following.current) {
      box.scrollTop += box.scrollHeight - height;
    }
    before.current = { first, height: box.scrollHeight };
  });

  const onScroll = () => {
    const box = outer.current;
    if (box === null) return;
    const near = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
    following.current = near;
    setAway(!near);
  };

  return (
    <div className={styles.frame}>
      <div className={styles.outer} ref={outer} onScroll={onScroll} tabIndex={-1}>
        <div className={styles.inner} ref={inner} role="log" aria-label="Conversation" aria-live="off">
          {earlier !== null && (
            <div className={styles.earlier}>
              <More label="Earlier messages" load={earlier} />
            </div>
          )}
          {children}
        </div>
      </div>
      {away && (
        <button type="button" className={styles.latest} onClick={() => toEnd('smooth')} aria-label="Go to the latest">
          <ArrowDown size={16} />
        </button>
      )}
    </div>
  );
}

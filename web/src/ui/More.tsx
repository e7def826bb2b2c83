import { useState } from 'react';
import { Button } from './Button';
import { Spinner } from './Spinner';

export interface MoreProps {
  readonly label: string;
  readonly load: () => Promise<void>;
  readonly className?: string | undefined;
}

/** Loads what a list goes on with. Whether that worked is told by the button itself. */
export function More({ label, load, className }: MoreProps) {
  const [state, setState] = useState<'ready' | 'loading' | 'failed'>('ready');
  const onClick = () => {
    setState('loading');
    load().then(
      () => setState('ready'),
      () => setState('failed'),
    );
  };
  return (
    <Button size="small" look="quiet" className={className} onClick={onClick} disabled={state === 'loading'}>
      {state === 'loading' && <Spinner />}
      {state === 'failed' ? 'That did not work. Try again' : label}
    </Button>
  );
}

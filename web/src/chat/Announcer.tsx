import { useEffect, useRef, useState } from 'react';
import type { SessionFold } from '../fold';
import { announcements } from './announce';

/** Tells a screen reader what happens. */
export function Announcer({ fold, ready }: { readonly fold: SessionFold; readonly ready: boolean }) {
  const before = useRef<SessionFold | null>(null);
  const [polite, setPolite] = useState('');
  const [assertive, setAssertive] = useState('');
  useEffect(() => {
    if (!ready) return;
    const said = announcements(before.current, fold);
    before.current = fold;
    const all = (urgency: string) => said.filter((s) => s.urgency === urgency).map((s) => s.text).join(' ');
    const [now, later] = [all('assertive'), all('polite')];
    if (now !== '') setAssertive(now);
    if (later !== '') setPolite(later);
  }, [fold, ready]);
  return (
    <>
      <div className="sr-only" role="status" aria-live="polite" data-announcer="polite">
        {polite}
      </div>
      <div className="sr-only" role="alert" aria-live="assertive" data-announcer="assertive">
        {assertive}
      </div>
    </>
  );
}

import { memo } from 'react';
import { count, money, type Meter } from './words';
import styles from './MeterLine.module.css';

/** What a turn or a session has cost, in one line. */
export const MeterLine = memo(function MeterLine({ meter }: { readonly meter: Meter }) {
  if (meter.calls === 0) return null;
  const about = meter.estimated ? '≈ ' : '';
  const cached = meter.cached > 0 ? ` (${count(meter.cached)} cached)` : '';
  return (
    <div className={styles.meter}>
      {meter.model !== null && <Model id={meter.model} />}
      <span>{meter.calls === 1 ? '1 call' : `${meter.calls} calls`}</span>
      <span title="Tokens of the prompts">
        {about}
        {count(meter.prompt)} in{cached}
      </span>
      <span title="Tokens generated">
        {about}
        {count(meter.output)} out
      </span>
      {meter.costMicros !== null && <span>{money(meter.costMicros)}</span>}
    </div>
  );
});

function Model({ id }: { readonly id: string }) {
  const rehearsal = id.startsWith('rehearsal:');
  return (
    <span className={rehearsal ? styles.rehearsal : undefined} title={rehearsal ? 'No model answered: a script played its part' : undefined}>
      {rehearsal ? 'rehearsal, no model' : id}
    </span>
  );
}

import { formatAge, formatDuration, formatMoment } from '../format/time';
import { useClock } from '../state/clock';

/** How long ago a moment was, ticking; the moment itself on hover. */
export function Age({ since, exact = false }: { since: string; exact?: boolean }) {
  const start_ms = Date.parse(since);
  const text = useClock((now_ms) => (exact ? formatDuration : formatAge)((now_ms - start_ms) / 1000));
  return (
    <time className="number" dateTime={since} title={formatMoment(since)}>
      {Number.isNaN(start_ms) ? since : text}
    </time>
  );
}

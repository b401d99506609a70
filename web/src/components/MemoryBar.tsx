import { memo, useRef, useState, type KeyboardEvent } from 'react';
import { exactBytes, formatBytes } from '../format/bytes';
import type { Bar, Segment } from '../memory/segments';
import { classes } from './classes';
import styles from './MemoryBar.module.css';

export interface MemoryBarProps {
  bar: Bar;
  /** What it shows: "Memory of this host", "After the plan". */
  label: string;
  /** Lower and without a legend, for cards. */
  compact?: boolean;
}

const colours = 7;
/** A share of the bar below which a name inside has no room. */
const room_for_name = 0.09;

function look(segment: Segment): string | undefined {
  if (segment.kind !== 'deployment') return styles[segment.kind];
  return segment.deployment === undefined ? styles.many : styles[`c${segment.deployment % colours}`];
}

function unknown(segment: Segment): boolean {
  return segment.held_bytes === null || segment.incomplete === true;
}

/**
 * Memory to scale, of a host now or after a change. The arrow keys go from piece to piece, and each says what it is; what
 * goes beyond the end is marked.
 */
export const MemoryBar = memo(function MemoryBar({ bar, label, compact = false }: MemoryBarProps) {
  const { segments, total_bytes, over_bytes } = bar;
  const [current, setCurrent] = useState<string | null>(null);
  const buttons = useRef(new Map<string, HTMLButtonElement>());
  const scale_bytes = Math.max(total_bytes + over_bytes, 1);
  const reachable = segments.find((segment) => segment.key === current) ?? segments[0];
  const spoken = segments.find((segment) => segment.key === current);

  const move = (event: KeyboardEvent, index: number) => {
    const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: segments.length - 1 }[event.key];
    const segment = to === undefined ? undefined : segments[to];
    if (!segment) return;
    event.preventDefault();
    buttons.current.get(segment.key)?.focus();
  };

  return (
    <figure className={classes(styles.figure, compact && styles.compact)}>
      <div
        role="toolbar"
        aria-label={`${label}: ${formatBytes(total_bytes)}${over_bytes > 0 ? `, over-committed by ${formatBytes(over_bytes)}` : ''}`}
        className={styles.bar}
        onMouseLeave={() => setCurrent(null)}
      >
        {segments.map((segment, index) => (
          <button
            key={segment.key}
            ref={(button) => {
              if (button) buttons.current.set(segment.key, button);
              else buttons.current.delete(segment.key);
            }}
            type="button"
            tabIndex={segment === reachable ? 0 : -1}
            aria-label={segment.description}
            title={`${segment.description} (${exactBytes(segment.bytes)})`}
            className={classes(styles.segment, look(segment), segment.held_bytes === null && styles.unknown)}
            style={{ width: `${(segment.bytes / scale_bytes) * 100}%` }}
            onFocus={() => setCurrent(segment.key)}
            onMouseEnter={() => setCurrent(segment.key)}
            onClick={() => setCurrent(segment.key)}
            onKeyDown={(event) => move(event, index)}
          >
            {typeof segment.held_bytes === 'number' && <Held segment={segment} />}
            {!compact && segment.bytes / scale_bytes > room_for_name && (
              <span className={styles.name}>
                {segment.label}
                {unknown(segment) && ' ?'}
              </span>
            )}
          </button>
        ))}
        {over_bytes > 0 && <div className={styles.over} style={{ width: `${(over_bytes / scale_bytes) * 100}%` }} />}
      </div>
      <div className={styles.scale}>
        {spoken ? <span className={styles.spoken}>{spoken.description}</span> : <span>0</span>}
        <span className="number">
          {over_bytes > 0 && <span className={styles.overText}>{formatBytes(over_bytes)} beyond </span>}
          {formatBytes(total_bytes)}
        </span>
      </div>
      {!compact && <Legend segments={segments} />}
    </figure>
  );
});

function Held({ segment }: { segment: Segment }) {
  const share = segment.bytes > 0 ? Math.min((segment.held_bytes ?? 0) / segment.bytes, 1) : 0;
  return (
    <>
      <span className={styles.promised} />
      <span
        className={classes(styles.held, segment.incomplete && styles.unknown)}
        style={{ width: `${share * 100}%` }}
      />
    </>
  );
}

function Legend({ segments }: { segments: Segment[] }) {
  return (
    <ul className={styles.legend} aria-label="Legend">
      {segments.map((segment) => (
        <li key={segment.key}>
          <span
            className={classes(styles.swatch, look(segment), unknown(segment) && styles.unknown)}
            aria-hidden="true"
          />
          <span className={styles.label} title={segment.label}>
            {segment.label}
          </span>
          <span className="number quiet" title={exactBytes(segment.bytes)}>
            {legendFigure(segment)}
          </span>
        </li>
      ))}
    </ul>
  );
}

function legendFigure({ bytes, held_bytes, incomplete }: Segment): string {
  if (held_bytes === undefined) return formatBytes(bytes);
  if (held_bytes === null) return `unknown of ${formatBytes(bytes)}`;
  return `${incomplete ? '≥ ' : ''}${formatBytes(held_bytes)} of ${formatBytes(bytes)}`;
}

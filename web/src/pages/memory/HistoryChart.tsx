import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { History } from '../../api/types';
import { useTheme } from '../../app/theme';
import { Size } from '../../components/Size';
import { formatBytes, gib } from '../../format/bytes';
import { formatMoment } from '../../format/time';
import { describeHistory, span_s, stacked_columns, upperEdges } from '../../memory/history';
import styles from './HistoryChart.module.css';

/** Of each stacked column: its name and colour. */
const looks: Record<(typeof stacked_columns)[number], { label: string; token: string }> = {
  deployments_bytes: { label: 'deployments', token: '--memory-0' },
  ready_gap_bytes: { label: 'reserved, not used', token: '--memory-gap' },
  external_bytes: { label: 'external', token: '--memory-external' },
  page_cache_bytes: { label: 'page cache', token: '--memory-cache' },
  free_bytes: { label: 'free', token: '--memory-free' },
};

const height_px = 192;

/** The last hour of the memory, stacked to MemTotal. */
export default function HistoryChart({ history }: { history: History }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const newest = useRef(history);
  newest.current = history;
  const [at, setAt] = useState<number | null>(null);
  const scheme = useScheme();

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(
      optionsFor(element, () => newest.current, setAt),
      upperEdges(newest.current),
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: height_px }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [scheme]);

  useEffect(() => {
    plot.current?.setData(upperEdges(history));
  }, [history]);

  const index = at ?? history.time_s.length - 1;
  const time_s = history.time_s[index];
  return (
    <figure className={styles.figure}>
      <div ref={box} className={styles.chart} role="img" aria-label={describeHistory(history)} />
      <ul className={styles.legend} aria-label="Legend of the last hour">
        {stacked_columns.map((column) => (
          <li key={column}>
            <span className={styles.swatch} style={{ background: `var(${looks[column].token})` }} aria-hidden="true" />
            {looks[column].label}
            <span className="quiet">
              <Size bytes={history[column][index]} reason="The host was not read then" />
            </span>
          </li>
        ))}
        {at !== null && time_s !== undefined && (
          <li className="number quiet">at {formatMoment(new Date(time_s * 1000).toISOString()).slice(11)}</li>
        )}
      </ul>
    </figure>
  );
}

/** Changes whenever the colours do. */
function useScheme(): string {
  const theme = useTheme();
  const [dark, setDark] = useState(false);
  useEffect(() => {
    const query = matchMedia('(prefers-color-scheme: dark)');
    const look = () => setDark(query.matches);
    look();
    query.addEventListener('change', look);
    return () => query.removeEventListener('change', look);
  }, []);
  return `${theme} ${dark}`;
}

/** What a canvas can take of a token, which may depend on the theme. */
function colourOf(element: HTMLElement, token: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${token})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function optionsFor(
  element: HTMLElement,
  history: () => History,
  onCursor: (index: number | null) => void,
): uPlot.Options {
  const quiet = colourOf(element, '--text-quiet');
  const grid = { stroke: colourOf(element, '--line'), width: 1 };
  const edge = colourOf(element, '--surface-raised');
  return {
    width: element.clientWidth,
    height: height_px,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
    scales: {
      x: { range: (_, __, last) => [last - span_s, last] },
      y: { range: (_, __, highest) => [0, Math.max(history().mem_total_bytes ?? highest, 1)] },
    },
    series: [
      {},
      ...stacked_columns.map((column): uPlot.Series => ({
        label: looks[column].label,
        stroke: edge,
        width: 1,
        // Each fills down to the one below it, which is drawn over it; the lowest down to 0.
        fill: colourOf(element, looks[column].token),
        points: { show: false },
      })),
    ],
    bands: stacked_columns.slice(1).map((_, index) => ({ series: [index + 2, index + 1] })),
    axes: [
      { stroke: quiet, grid, ticks: grid, values: [[60, '{HH}:{mm}', null, null, null, null, null, null, 1]] },
      {
        stroke: quiet,
        grid,
        ticks: grid,
        size: 72,
        incrs: [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map((step) => step * gib),
        values: (_, ticks) => ticks.map((bytes) => (bytes === 0 ? '0' : formatBytes(bytes))),
      },
    ],
    hooks: { setCursor: [(made) => onCursor(made.cursor.idx ?? null)] },
  };
}

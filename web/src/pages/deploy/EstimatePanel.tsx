import { useMemo, type ReactNode } from 'react';
import type { Fit } from '../../api/types';
import { classes } from '../../components/classes';
import { MemoryBar } from '../../components/MemoryBar';
import { Note } from '../../components/Note';
import { Size } from '../../components/Size';
import { formatDuration } from '../../format/time';
import { budgetBar, changedBar } from '../../memory/segments';
import { takesText } from '../../plans/plans';
import styles from './DeployPage.module.css';

const partNames: Record<string, string> = {
  weights: 'Weights',
  kv: 'KV cache',
  state: 'State',
  activations: 'Activations',
  runtime: 'Runtime',
  margin: 'Margin',
};

/** What a model would take, and whether it fits. */
export function EstimatePanel({ fit, actions }: { fit: Fit; actions: ReactNode }) {
  const now = fit.budget;
  const bar = useMemo(
    () => now && changedBar(budgetBar(now), { adds: { label: fit.model.name, bytes: fit.total_bytes } }),
    [now, fit],
  );
  return (
    <div className="stack">
      <Verdict fit={fit} />
      {bar && <MemoryBar bar={bar} label="Memory with this model" />}
      {actions}
      <Certainty fit={fit} />
      <div className={styles.scroll} role="group" aria-label="Parts of the estimate" tabIndex={0}>
        <table className={styles.parts}>
          <caption className="only-read">Parts of the estimate</caption>
          <thead>
            <tr>
              <th scope="col">Part</th>
              <th scope="col" className={styles.figure}>
                Size
              </th>
              <th scope="col">Source</th>
            </tr>
          </thead>
          <tbody>
            {fit.parts.map((part) => (
              <tr key={part.name}>
                <th scope="row">
                  {partNames[part.name] ?? part.name}
                  <span className={classes('foreign', styles.detail)}>{part.detail}</span>
                </th>
                <td className={styles.figure}>
                  <Size bytes={part.bytes} />
                </td>
                <td className="quiet">{part.source.replaceAll('_', ' ')}</td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">
                Total
                <span className={classes('foreign', styles.detail)}>
                  {fit.total_source}
                  {fit.total_bytes !== fit.formula_bytes && (
                    <>
                      ; by the formula <Size bytes={fit.formula_bytes} />
                    </>
                  )}
                </span>
              </th>
              <td className={styles.figure}>
                <Size bytes={fit.total_bytes} />
              </td>
              <td />
            </tr>
          </tfoot>
        </table>
      </div>
    </div>
  );
}

function Verdict({ fit }: { fit: Fit }) {
  const { after } = fit;
  return (
    <div role="status" className={classes(styles.verdict, styles[fit.verdict])}>
      <p className={styles.answer}>
        <span aria-hidden="true">{fit.verdict === 'fits' ? '✓ ' : fit.verdict === 'fits_after' ? '↻ ' : '✕ '}</span>
        {fit.verdict === 'fits' && (
          <>
            Fits: leaves <Size bytes={fit.left_bytes} />
          </>
        )}
        {fit.verdict === 'fits_after' && <>Fits after a change</>}
        {fit.verdict === 'does_not_fit' && (
          <>
            Does not fit: <Size bytes={fit.shortfall_bytes} /> are missing
          </>
        )}
      </p>
      <p>
        Needs <Size bytes={fit.total_bytes} /> of <Size bytes={fit.free_for_new_bytes} /> free
        {fit.verdict === 'fits_after' && (
          <>
            , <Size bytes={fit.shortfall_bytes} /> too little
          </>
        )}
        .
      </p>
      {after && (
        <p className="foreign">
          {after.title}. Takes {takesText(after, formatDuration)}, leaves <Size bytes={after.left_bytes} />.
          {after.unsafe.length > 0 && ` Unsafe: ${after.unsafe.join('; ')}.`}
        </p>
      )}
    </div>
  );
}

const confidences: Record<string, string> = {
  low: "Low confidence: the model's files lack figures that the formula needs, or contradict themselves; a margin is added.",
  estimated: 'Estimated by the formula; no start of this model was measured yet.',
  calibrated: 'Calibrated: by the formula, corrected by earlier starts of this model.',
  measured: 'Measured: as an earlier start with this configuration took.',
};

/** How sure the estimate is, and why. */
function Certainty({ fit }: { fit: Fit }) {
  return (
    <>
      <p className="quiet">{confidences[fit.confidence] ?? `Confidence: ${fit.confidence}.`}</p>
      <Sentences kind="warning" title="The files contradict themselves" texts={fit.contradictions} />
      <Sentences kind="warning" title="Not certain" texts={fit.missing_fields} />
      <Sentences kind="info" title="Notes" texts={fit.notes} />
    </>
  );
}

function Sentences({ kind, title, texts }: { kind: 'info' | 'warning'; title: string; texts: string[] }) {
  if (texts.length === 0) return null;
  return (
    <Note kind={kind}>
      <strong>{title}</strong>
      <ul className={styles.bullets}>
        {texts.map((text) => (
          <li key={text} className="foreign">
            {text}
          </li>
        ))}
      </ul>
    </Note>
  );
}

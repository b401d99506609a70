import { Button } from '../../components/Button';
import { classes } from '../../components/classes';
import { Size } from '../../components/Size';
import { exactBytes } from '../../format/bytes';
import { formatMoment } from '../../format/time';
import {
  configurationSummary,
  factorOf,
  formatFactor,
  scaleEnd,
  type Comparison,
  type ModelComparison,
} from './learned';
import styles from './CalibrationPage.module.css';

/**
 * What was measured, as a multiple of the formula: every model on one scale, whatever its size. What the dots show is in
 * words beside them, and one by one in the table of records.
 */
export function ComparisonChart({
  models,
  forget,
}: {
  models: ModelComparison[];
  forget: (fingerprint: string) => void;
}) {
  const end = scaleEnd(models);
  return (
    <figure className="card stack" aria-label="Measured against the formula">
      <figcaption className={styles.key}>
        <span>
          <span className={styles.formula} aria-hidden="true" />
          the formula
        </span>
        <span>
          <span className={styles.dot} aria-hidden="true" />
          measured: the formula is enough
        </span>
        <span>
          <span className={classes(styles.dot, styles.raises)} aria-hidden="true" />
          measured: raises the next estimate, as 5 % are added
        </span>
      </figcaption>
      {models.map((model) => (
        <div key={model.fingerprint} className={styles.model}>
          <div className="row spread">
            <h3 className="foreign">{model.name}</h3>
            <Button
              small
              kind="quiet"
              aria-label={`Forget all … of ${model.name}`}
              onClick={() => forget(model.fingerprint)}
            >
              Forget all …
            </Button>
          </div>
          <ul className={styles.rows}>
            {model.configurations.map((one) => (
              <Row key={one.configuration} comparison={one} end={end} />
            ))}
          </ul>
        </div>
      ))}
      <Axis end={end} />
    </figure>
  );
}

const percent = (value: number, end: number) => `${(value / end) * 100}%`;

function Row({ comparison, end }: { comparison: Comparison; end: number }) {
  const { configuration, records, measured_bytes, formula_bytes, factor, next_bytes } = comparison;
  return (
    <li className={styles.comparison}>
      <span title={configuration}>{configurationSummary(configuration)}</span>
      <div className={styles.track} aria-hidden="true">
        <div className={styles.above} style={{ left: percent(1, end) }} />
        <div className={styles.formula} style={{ left: percent(1, end) }} />
        {records.map((record, index) => {
          const its = factorOf(record);
          if (its === null) return null;
          return (
            <span
              key={record.id}
              className={classes(
                styles.dot,
                its * 1.05 > 1 && styles.raises,
                index < records.length - 1 && styles.older,
              )}
              style={{ left: percent(its, end) }}
              title={`${formatFactor(its)}: ${exactBytes(record.measured_bytes)}, ${formatMoment(record.recorded_at)}`}
            />
          );
        })}
      </div>
      <span className={styles.figures}>
        <span className={classes(styles.factor, 'number')}>{factor === null ? '–' : formatFactor(factor)}</span>{' '}
        <span className={styles.under}>
          <Size bytes={measured_bytes} /> of <Size bytes={formula_bytes} />
          {next_bytes > formula_bytes && (
            <>
              {' → next '}
              <Size bytes={next_bytes} />
            </>
          )}
        </span>
      </span>
    </li>
  );
}

function Axis({ end }: { end: number }) {
  return (
    <div className={styles.comparison} aria-hidden="true">
      <span />
      <div className={styles.axis}>
        <span>0</span>
        <span style={{ left: percent(1, end) }}>formula</span>
        <span style={{ left: '100%' }}>×{end}</span>
      </div>
      <span />
    </div>
  );
}

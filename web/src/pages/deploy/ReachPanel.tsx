import type { Config, Fit, Limit } from '../../api/types';
import { Button } from '../../components/Button';
import { Size } from '../../components/Size';
import { formatCount } from '../../format/bytes';
import { valuesFor } from '../../deploy/fields';
import styles from './DeployPage.module.css';

interface Props {
  fit: Fit;
  onChange: (changes: Record<string, string>) => void;
}

/** What else the free memory holds of this model; each is one click away. */
export function ReachPanel({ fit, onChange }: Props) {
  const { longest_context, whole_context, most_sequences, settings, quantizations } = fit.reach;
  const take = (config: Config) => onChange(valuesFor(fit.config, config));
  const isNow = (config: Config) => Object.keys(valuesFor(fit.config, config)).length === 0;
  const other = settings.filter((option) => !option.as_asked);
  return (
    <section className="card stack" aria-labelledby="deploy-reach">
      <h2 id="deploy-reach">What would fit</h2>
      <p className="quiet">One click takes it into the form. Context: the longest that fits then.</p>
      <ul className="stack">
        <li>
          <Reached
            what="Longest context"
            limit={longest_context}
            text={(value) => `${formatCount(value)} tokens${whole_context ? ', all of it' : ''}`}
            isNow={isNow}
            onTake={take}
          />
        </li>
        <li>
          <Reached
            what="Most sequences"
            limit={most_sequences}
            text={(value) => `${formatCount(value)} that fill their context at once`}
            isNow={isNow}
            onTake={take}
          />
        </li>
      </ul>
      {other.length > 0 && (
        <Options title="Other settings">
          {other.map((option) => (
            <Option
              key={option.name}
              name={option.name}
              needed_bytes={option.needed_bytes}
              fits={option.fits}
              longest_context={option.longest_context}
              onTake={() => take(option.config)}
            />
          ))}
        </Options>
      )}
      {quantizations.length > 0 && (
        <Options title="Other quantizations">
          {quantizations.map((option) => (
            <Option
              key={option.path}
              name={option.quantization || option.name}
              title={option.path}
              needed_bytes={option.needed_bytes}
              fits={option.fits}
              longest_context={option.longest_context}
              onTake={() => onChange({ model: option.path })}
            />
          ))}
        </Options>
      )}
    </section>
  );
}

function Reached({
  what,
  limit,
  text,
  isNow,
  onTake,
}: {
  what: string;
  limit: Limit | null;
  text: (value: number) => string;
  isNow: (config: Config) => boolean;
  onTake: (config: Config) => void;
}) {
  return (
    <div className="row">
      <strong>{what}:</strong>
      {limit === null ? (
        <span>none fits</span>
      ) : (
        <>
          <span className="number">{text(limit.value)}</span>
          <span className="quiet">
            needs <Size bytes={limit.needed_bytes} />
          </span>
          {isNow(limit.config) ? (
            <span className="quiet">as asked</span>
          ) : (
            <Button small onClick={() => onTake(limit.config)} aria-label={`Take it: ${what}, ${text(limit.value)}`}>
              Take it
            </Button>
          )}
        </>
      )}
    </div>
  );
}

function Options({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <div className={styles.scroll} role="group" aria-label={title} tabIndex={0}>
      <table className={styles.parts}>
        <thead>
          <tr>
            <th scope="col">{title}</th>
            <th scope="col" className={styles.figure}>
              Needs
            </th>
            <th scope="col">Fits</th>
            <th scope="col" className={styles.figure}>
              Context
            </th>
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

function Option({
  name,
  title,
  needed_bytes,
  fits,
  longest_context,
  onTake,
}: {
  name: string;
  title?: string;
  needed_bytes: number;
  fits: boolean;
  longest_context: number | null;
  onTake: () => void;
}) {
  return (
    <tr>
      <th scope="row">
        <Button small className={styles.option} title={title} onClick={onTake}>
          {name}
        </Button>
      </th>
      <td className={styles.figure}>
        <Size bytes={needed_bytes} />
      </td>
      <td>{fits ? 'yes' : 'no'}</td>
      <td className={styles.figure}>{longest_context === null ? 'none fits' : formatCount(longest_context)}</td>
    </tr>
  );
}

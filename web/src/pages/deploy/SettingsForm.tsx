import { memo, useEffect, useId, useState } from 'react';
import { classes } from '../../components/classes';
import { fieldsOf, valueInUse, type Engine, type Field, type FormValues } from '../../deploy/fields';
import styles from './DeployPage.module.css';

interface Props {
  engine: Engine | null;
  values: FormValues;
  /** What is wrong, by field. */
  errors: Record<string, string>;
  /** What the engine takes for the fields that are empty. */
  config: object;
  /** Names that may be typed where a model is wanted. */
  models: readonly string[];
  onChange: (changes: Record<string, string>) => void;
}

const places: [Field['place'], string][] = [
  ['memory', 'More about memory'],
  ['drafting', 'Drafting tokens'],
  ['deployment', 'Name, port, priority, container, labels'],
];

/** Everything that can be asked for beside the model. */
export function SettingsForm({ engine, values, errors, config, models, onChange }: Props) {
  const fields = fieldsOf(engine);
  const inputs = (place: Field['place']) =>
    fields
      .filter((field) => field.place === place)
      .map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          value={values[field.name] ?? ''}
          error={errors[field.name] ?? null}
          inUse={valueInUse(field, config)}
          suggestions={field.name === 'draft_model' ? models : (field.options ?? none)}
          onChange={onChange}
        />
      ));
  return (
    <section className="card stack" aria-labelledby="deploy-settings">
      <h2 id="deploy-settings">Settings</h2>
      <div className={styles.fields}>
        <EngineInput value={values.engine ?? ''} error={errors.engine ?? null} engine={engine} onChange={onChange} />
        {inputs('main')}
      </div>
      {places.map(([place, title]) => {
        const here = fields.filter((field) => field.place === place);
        if (here.length === 0) return null;
        return (
          <Disclosure
            key={place}
            title={title}
            set={here.filter((field) => (values[field.name] ?? '') !== '').length}
            faulty={here.some((field) => errors[field.name] !== undefined)}
          >
            <div className={styles.fields}>{inputs(place)}</div>
          </Disclosure>
        );
      })}
    </section>
  );
}

const none: readonly string[] = [];

/** Fields that few people need; opens by itself when one of them is wrong. */
function Disclosure({
  title,
  set,
  faulty,
  children,
}: {
  title: string;
  /** How many of its fields are given. */
  set: number;
  faulty: boolean;
  children: React.ReactNode;
}) {
  const [open, setOpen] = useState(set > 0);
  useEffect(() => {
    if (faulty) setOpen(true);
  }, [faulty]);
  return (
    <details className={styles.more} open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {title}
        {set > 0 && <span className="quiet"> ({set} set)</span>}
      </summary>
      {children}
    </details>
  );
}

function EngineInput({
  value,
  error,
  engine,
  onChange,
}: {
  value: string;
  error: string | null;
  engine: Engine | null;
  onChange: Props['onChange'];
}) {
  const id = useId();
  return (
    <div className={styles.field}>
      <label htmlFor={id}>Engine</label>
      <select
        id={id}
        value={value}
        aria-invalid={error !== null}
        aria-describedby={`${id}-help`}
        onChange={(event) => onChange({ engine: event.target.value })}
      >
        <option value="">{engine !== null && value === '' ? `by the model: ${engine}` : 'by the model'}</option>
        <option value="llama.cpp">llama.cpp</option>
        <option value="vllm">vllm</option>
      </select>
      <Help id={`${id}-help`} error={error} help="llama.cpp serves GGUF files, vLLM folders of safetensors." />
    </div>
  );
}

function Help({ id, error, help }: { id: string; error: string | null; help: string }) {
  return (
    <p id={id} className={classes(styles.help, error !== null && styles.wrong)}>
      {error ?? help}
    </p>
  );
}

interface FieldProps {
  field: Field;
  value: string;
  error: string | null;
  inUse: string;
  suggestions: readonly string[];
  onChange: Props['onChange'];
}

const FieldInput = memo(function FieldInput({ field, value, error, inUse, suggestions, onChange }: FieldProps) {
  const id = useId();
  const change = (text: string) => onChange({ [field.name]: text });
  const described = { 'aria-invalid': error !== null, 'aria-describedby': `${id}-help` };
  return (
    <div className={classes(styles.field, field.kind === 'labels' && styles.whole)}>
      <label htmlFor={id}>{field.label}</label>
      {field.kind === 'choice' || field.kind === 'switch' ? (
        <select id={id} value={value} {...described} onChange={(event) => change(event.target.value)}>
          <option value="">{inUse === '' ? 'as usual' : `as usual: ${inUse}`}</option>
          {(field.kind === 'switch' ? ['on', 'off'] : (field.options ?? [])).map((option) => (
            <option key={option} value={option}>
              {option}
            </option>
          ))}
        </select>
      ) : field.kind === 'labels' ? (
        <textarea id={id} rows={2} value={value} {...described} onChange={(event) => change(event.target.value)} />
      ) : (
        <>
          <input
            id={id}
            inputMode={field.kind === 'whole' ? 'numeric' : 'text'}
            autoComplete="off"
            spellCheck={false}
            placeholder={inUse}
            list={suggestions.length > 0 ? `${id}-list` : undefined}
            value={value}
            {...described}
            onChange={(event) => change(event.target.value)}
          />
          {suggestions.length > 0 && (
            <datalist id={`${id}-list`}>
              {suggestions.map((option) => (
                <option key={option} value={option} />
              ))}
            </datalist>
          )}
        </>
      )}
      <Help id={`${id}-help`} error={error} help={field.help} />
    </div>
  );
});

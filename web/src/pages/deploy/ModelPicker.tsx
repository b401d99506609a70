import { useEffect, useId, useMemo, useRef, useState, type FormEvent } from 'react';
import type { CatalogModel, Models } from '../../api/types';
import { Button } from '../../components/Button';
import { classes } from '../../components/classes';
import { ErrorNote, Note } from '../../components/Note';
import { Empty, Skeleton } from '../../components/Placeholder';
import { Size } from '../../components/Size';
import { formatCount } from '../../format/bytes';
import { findModel, groupModels, quantizationName, searchModels } from '../../deploy/catalog';
import type { Resource } from '../../state/resource';
import styles from './DeployPage.module.css';

interface Props {
  catalog: Resource<Models>;
  /** What is chosen: a path or a name; empty: nothing yet. */
  model: string;
  /** What the daemon says against it. */
  error: string | null;
  onChoose: (model: string) => void;
}

/** The model: chosen from the catalog, or typed. */
export function ModelPicker({ catalog, model, error, onChoose }: Props) {
  const [choosing, setChoosing] = useState(false);
  const another = useRef<HTMLButtonElement>(null);
  const chosen = useRef(false);
  const choose = (path: string) => {
    chosen.current = true;
    setChoosing(false);
    onChoose(path);
  };
  // What had the focus is gone with the catalog.
  useEffect(() => {
    if (chosen.current) another.current?.focus();
    chosen.current = false;
  });
  const known = catalog.data ? findModel(catalog.data.models, model) : null;
  return (
    <section className="card stack" aria-labelledby="deploy-model">
      <div className={styles.head}>
        <h2 id="deploy-model">Model</h2>
        {model !== '' && (
          <Button ref={another} small aria-expanded={choosing} onClick={() => setChoosing(!choosing)}>
            {choosing ? 'Keep it' : 'Choose another'}
          </Button>
        )}
      </div>
      {model !== '' && <Chosen model={known} text={model} />}
      {error !== null && (
        <Note kind="error" role="alert">
          {error}
        </Note>
      )}
      {(model === '' || choosing) && <Catalog catalog={catalog} chosen={known?.path ?? model} onChoose={choose} />}
    </section>
  );
}

function Chosen({ model, text }: { model: CatalogModel | null; text: string }) {
  if (!model) return <p className="foreign mono">{text}</p>;
  return (
    <div>
      <p className="foreign">
        <strong>{model.name}</strong>
      </p>
      <p className="quiet">
        {[quantizationName(model), model.architecture, model.engine].filter(Boolean).join(' · ')} ·{' '}
        <Size bytes={model.file_bytes} />
        {model.training_context !== null && ` · ${formatCount(model.training_context)} tokens of context`}
      </p>
      <p className="foreign quiet mono">{model.path}</p>
    </div>
  );
}

function Catalog({
  catalog,
  chosen,
  onChoose,
}: {
  catalog: Resource<Models>;
  chosen: string;
  onChoose: (model: string) => void;
}) {
  const id = useId();
  const [search, setSearch] = useState('');
  const models = catalog.data?.models;
  const groups = useMemo(() => groupModels(searchModels(models ?? [], search)), [models, search]);
  const text = search.trim();

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text === '') return;
    const [only, ...others] = groups.flatMap((group) => group.models).filter((one) => one.problem === '');
    onChoose(only && others.length === 0 ? only.path : text);
  };

  return (
    <>
      <form className="stack" role="search" onSubmit={submit}>
        <label htmlFor={id}>Search, or a path or name</label>
        <div className={styles.search}>
          <input
            id={id}
            type="search"
            autoComplete="off"
            spellCheck={false}
            placeholder="qwen Q4, /models/m.gguf, ORG/NAME:QUANT"
            value={search}
            onChange={(event) => setSearch(event.target.value)}
          />
          <Button type="submit" disabled={text === ''}>
            Use it
          </Button>
        </div>
      </form>
      {catalog.error && <ErrorNote error={catalog.error} what="The catalog could not be read" retry={catalog.reload} />}
      {catalog.loading && <Skeleton label="Reading the catalog" lines={4} />}
      {catalog.data && (
        <>
          {catalog.data.warnings.map((warning) => (
            <Note key={warning} kind="warning">
              <p className="foreign">{warning}</p>
            </Note>
          ))}
          {catalog.data.models.length === 0 && <NoModels folders={catalog.data.folders} />}
          {catalog.data.models.length > 0 && groups.length === 0 && (
            <p>
              No model of the catalog has all of these words. <strong>Use it</strong> takes what is typed as a path or a
              name.
            </p>
          )}
          {groups.length > 0 && (
            <fieldset className={styles.catalog} aria-label="Models of the catalog">
              {groups.map((group) => (
                <div key={group.key} className={styles.group}>
                  <h3 className="foreign">{group.name}</h3>
                  <div className={styles.quantizations}>
                    {group.models.map((model) => (
                      <Choice key={model.path} model={model} chosen={model.path === chosen} onChoose={onChoose} />
                    ))}
                  </div>
                </div>
              ))}
            </fieldset>
          )}
        </>
      )}
    </>
  );
}

function Choice({
  model,
  chosen,
  onChoose,
}: {
  model: CatalogModel;
  chosen: boolean;
  onChoose: (model: string) => void;
}) {
  const quantization = quantizationName(model);
  return (
    <button
      type="button"
      className={styles.choice}
      aria-pressed={chosen}
      disabled={model.problem !== ''}
      title={model.path}
      onClick={() => onChoose(model.path)}
    >
      <strong className="foreign">{quantization}</strong>
      <span className="quiet">
        <Size bytes={model.file_bytes} /> {model.engine}
      </span>
      {model.name !== model.group && <span className="foreign quiet">{model.name}</span>}
      {model.problem !== '' && <span className={classes('foreign', styles.problem)}>{problemOf(model)}</span>}
    </button>
  );
}

/** The daemon names the file first, which is known here. */
function problemOf({ problem, path }: CatalogModel): string {
  return problem.startsWith(`${path}: `) ? problem.slice(path.length + 2) : problem;
}

function NoModels({ folders }: { folders: string[] }) {
  return (
    <Empty title="There are no models">
      <p>
        {folders.length > 0 ? 'These folders were searched:' : 'No folder is searched.'} The setting{' '}
        <code>model_folders</code> names more, and a path can be typed above.
      </p>
      {folders.length > 0 && (
        <ul>
          {folders.map((folder) => (
            <li key={folder} className="foreign mono">
              {folder}
            </li>
          ))}
        </ul>
      )}
    </Empty>
  );
}

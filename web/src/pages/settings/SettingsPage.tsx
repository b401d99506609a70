import { useMemo, useState, useSyncExternalStore } from 'react';
import { token } from '../../api/token';
import type { Health, Setting } from '../../api/types';
import { setTheme, useTheme, type Theme } from '../../app/theme';
import { Button } from '../../components/Button';
import { classes } from '../../components/classes';
import { DataTable, type Column } from '../../components/DataTable';
import { Facts } from '../../components/Facts';
import { ErrorNote, Note, Warnings } from '../../components/Note';
import { Empty, Skeleton } from '../../components/Placeholder';
import { SearchField } from '../../components/SearchField';
import { Section } from '../../components/Section';
import { Unknown } from '../../components/Unknown';
import { matches } from '../../format/search';
import { useDaemon } from '../../state/daemon';
import { useResource } from '../../state/resource';
import styles from './SettingsPage.module.css';
import { TokenCard } from './TokenCard';

export default function SettingsPage() {
  return (
    <>
      <h1>Settings</h1>
      <HostState />
      <div className={styles.cards}>
        <About />
        <TokenCard />
        <Themes />
      </div>
      <AllSettings />
    </>
  );
}

/** What is not well with the daemon or the host, and what to do about it. */
function HostState() {
  // What ails the daemon has no event of its own.
  const health = useResource<Health>('/healthz', { topics: ['host'], every_s: 30 });
  const warnings = useDaemon((daemon) => daemon.budget?.warnings);
  // A daemon in trouble answers 503, with the same words.
  const trouble = health.error?.status === 503 ? health.error.message : (health.data?.detail ?? '');
  if (trouble === '' && (warnings === undefined || warnings.length === 0)) return null;
  return (
    <Section title="What to look after">
      {trouble !== '' && (
        <Note kind={health.error ? 'warning' : 'info'}>
          <p>{trouble}</p>
        </Note>
      )}
      {warnings && <Warnings warnings={warnings} />}
      <p className="quiet">
        <code>dgxmm doctor</code> tells more about this host, a line each.
      </p>
    </Section>
  );
}

function About() {
  const version = useDaemon((daemon) => daemon.version);
  const withToken = useSyncExternalStore(token.subscribe, token.keptIn) !== null;
  const host_class = useDaemon((daemon) => daemon.budget?.host_class);
  const evidence = useDaemon((daemon) => daemon.budget?.host_class_evidence);
  return (
    <div className="card stack">
      <h2>This dgxmm</h2>
      <Facts
        facts={{
          Version: version && `${version.version}${version.commit === '' ? '' : ` (${version.commit})`}`,
          Address: location.origin,
          // A link cannot send the token.
          API:
            version &&
            (withToken ? version.api : <a href={`/api/${version.api}/openapi.json`}>{version.api}, as OpenAPI</a>),
          Host: host_class && (
            <>
              {host_class} <span className="quiet">{evidence}</span>
            </>
          ),
        }}
      />
    </div>
  );
}

const themes: [Theme, string][] = [
  ['system', 'As the system has it'],
  ['light', 'Light'],
  ['dark', 'Dark'],
];

function Themes() {
  const theme = useTheme();
  return (
    <div className="card stack">
      <h2 id="theme">Theme</h2>
      <fieldset className={styles.themes} aria-labelledby="theme">
        {themes.map(([value, title]) => (
          <label key={value} className="row">
            <input type="radio" name="theme" value={value} checked={theme === value} onChange={() => setTheme(value)} />
            {title}
          </label>
        ))}
      </fieldset>
    </div>
  );
}

function isChanged(setting: Setting): boolean {
  return setting.source !== 'default';
}

function AllSettings() {
  // Settings are read when the daemon starts: a reconnect reads them anew.
  const { data, error, loading, reload } = useResource<Setting[]>('/api/v1/settings');
  const [query, setQuery] = useState('');
  const [onlyChanged, setOnlyChanged] = useState(false);
  const shown = useMemo(
    () =>
      (data ?? []).filter(
        (one) =>
          (!onlyChanged || isChanged(one)) && matches(query.trim(), [one.name, one.value, one.description, one.source]),
      ),
    [data, query, onlyChanged],
  );
  return (
    <Section title="Settings of the daemon">
      <p>
        They are changed in its configuration file, by a variable or on its command line, and hold from its next start
        on.
      </p>
      {error && <ErrorNote error={error} what="The settings could not be read" retry={reload} />}
      {loading && <Skeleton label="Reading the settings" lines={8} />}
      {data && (
        <div className={styles.filters}>
          <SearchField label="Search" placeholder="name, value, description" value={query} onChange={setQuery} />
          <label className={classes('row', styles.check)}>
            <input type="checkbox" checked={onlyChanged} onChange={(event) => setOnlyChanged(event.target.checked)} />
            only those that somebody has set ({data.filter(isChanged).length})
          </label>
        </div>
      )}
      {data && shown.length === 0 && (
        <Empty title="There is no such setting">
          <Button
            small
            onClick={() => {
              setQuery('');
              setOnlyChanged(false);
            }}
          >
            Show all
          </Button>
        </Empty>
      )}
      {shown.length > 0 && <DataTable label="Settings" rows={shown} columns={columns} rowKey={(row) => row.name} />}
    </Section>
  );
}

const columns: Column<Setting>[] = [
  {
    key: 'name',
    title: 'Setting',
    sortBy: (row) => row.name,
    render: (row) => (
      <>
        <code className={styles.name}>{row.name}</code>
        <span className={styles.under}>{row.description}</span>
      </>
    ),
  },
  {
    key: 'value',
    title: 'Value',
    render: (row) =>
      row.value === '' ? (
        <Unknown word="empty" />
      ) : (
        <code className={classes('foreign', isChanged(row) && styles.changed)}>{row.value}</code>
      ),
  },
  {
    key: 'source',
    title: 'From',
    sortBy: (row) => row.source,
    render: (row) => <span className="foreign">{row.source}</span>,
  },
];

import type { Connection } from '../api/live';
import { Age } from '../components/Age';
import { classes } from '../components/classes';
import { useDaemon } from '../state/daemon';
import styles from './App.module.css';
import { href } from './router';
import { routes } from './routes';
import { setTheme, useTheme, type Theme } from './theme';

export function Header({ current }: { current: string }) {
  const version = useDaemon((state) => state.version);
  const connection = useDaemon((state) => state.connection);
  const theme = useTheme();
  return (
    <header className={styles.header}>
      <div className={styles.headerInner}>
        <a className={styles.brand} href={href('memory')}>
          dgxmm
        </a>
        <span className={styles.host} title={version?.commit}>
          {version?.host ?? location.hostname}
          {version && ` · ${version.version}`}
        </span>
        <nav className={styles.navigation} aria-label="Pages">
          <ul>
            {routes
              .filter((route) => route.inNavigation)
              .map((route) => (
                <li key={route.page}>
                  <a href={href(route.page)} aria-current={route.page === current ? 'page' : undefined}>
                    {route.title}
                  </a>
                </li>
              ))}
          </ul>
        </nav>
        <div className={styles.end}>
          <ConnectionState connection={connection} />
          <select
            className={styles.theme}
            aria-label="Theme"
            value={theme}
            onChange={(event) => setTheme(event.target.value as Theme)}
          >
            <option value="system">system</option>
            <option value="light">light</option>
            <option value="dark">dark</option>
          </select>
        </div>
      </div>
    </header>
  );
}

function ConnectionState({ connection }: { connection: Connection }) {
  const lost = connection.kind === 'reconnecting' || connection.kind === 'token';
  return (
    <span
      role="status"
      className={classes(styles.connection, connection.kind === 'live' && styles.live, lost && styles.lost)}
    >
      <span className={styles.dot} aria-hidden="true" />
      {connection.kind === 'connecting' && 'connecting'}
      {connection.kind === 'live' && 'live'}
      {connection.kind === 'token' && 'token wanted'}
      {connection.kind === 'reconnecting' && (
        // The seconds are not read out one by one.
        <span title={connection.reason}>
          connection lost
          <span aria-hidden="true">
            {' '}
            for <Age since={new Date(connection.since_ms).toISOString()} />
          </span>
        </span>
      )}
    </span>
  );
}

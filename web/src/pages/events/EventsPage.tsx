import { memo, useId, useMemo } from 'react';
import type { Event } from '../../api/types';
import { href, navigate, usePlace } from '../../app/router';
import { Age } from '../../components/Age';
import { Button } from '../../components/Button';
import { classes } from '../../components/classes';
import { ErrorNote } from '../../components/Note';
import { Empty, Skeleton } from '../../components/Placeholder';
import { formatMoment } from '../../format/time';
import styles from './EventsPage.module.css';
import { deploymentsIn, filterEvents, kinds, toneOf, type EventList } from './list';
import { useEvents } from './useEvents';

export default function EventsPage() {
  const { list, error, reading, more, readOlder, reload } = useEvents();
  const { query } = usePlace();
  const kind = query.get('kind') ?? '';
  const deployment = query.get('deployment');
  const shown = useMemo(
    () => filterEvents(list ?? [], { kind, deployment: deployment === null ? null : Number(deployment) }),
    [list, kind, deployment],
  );

  return (
    <>
      <h1>Events</h1>
      {list && <Filters list={list} kind={kind} deployment={deployment ?? ''} />}
      {error && <ErrorNote error={error} what="The events could not be read" retry={reload} />}
      {!list && !error && <Skeleton label="Reading what happened" lines={8} />}
      {list?.length === 0 && (
        <Empty title="Nothing happened yet">
          <p>What is started, stopped, learned or found stands here, for the last 10,000 times.</p>
        </Empty>
      )}
      {list && list.length > 0 && shown.length === 0 && (
        <Empty title={`None of the newest ${list.length} events is of that kind`}>
          <Button small onClick={() => navigate(href('events'), { replace: true })}>
            Show all
          </Button>
        </Empty>
      )}
      {shown.length > 0 && <List list={shown} />}
      {list && list.length > 0 && (
        <div className="row">
          {more ? (
            <Button onClick={readOlder} busy={reading}>
              Older events
            </Button>
          ) : (
            <p className="quiet">{list.at(-1)?.id === 1 ? 'That is all of it.' : 'Older events are not kept.'}</p>
          )}
          {shown.length < list.length && (
            <p className="quiet">
              {shown.length} of {list.length} events shown
            </p>
          )}
        </div>
      )}
    </>
  );
}

function Filters({ list, kind, deployment }: { list: EventList; kind: string; deployment: string }) {
  const id = useId();
  const deployments = useMemo(() => deploymentsIn(list), [list]);
  const known = deployment === '' || deployments.some((one) => String(one.id) === deployment);
  const filter = (change: { kind?: string; deployment?: string }) => {
    const wanted = Object.entries({ kind, deployment, ...change }).filter(([, value]) => value !== '');
    navigate(href('events', [], Object.fromEntries(wanted)), { replace: true });
  };
  return (
    <div className={styles.filters}>
      <div className={styles.filter}>
        <label htmlFor={`${id}kind`}>Kind</label>
        <select id={`${id}kind`} value={kind} onChange={(event) => filter({ kind: event.target.value })}>
          <option value="">all</option>
          {Object.entries(kinds).map(([value, title]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
      </div>
      <div className={styles.filter}>
        <label htmlFor={`${id}deployment`}>Deployment</label>
        <select
          id={`${id}deployment`}
          value={deployment}
          onChange={(event) => filter({ deployment: event.target.value })}
        >
          <option value="">all</option>
          {!known && <option value={deployment}>deployment {deployment}</option>}
          {deployments.map((one) => (
            <option key={one.id} value={one.id}>
              {one.name} (id {one.id})
            </option>
          ))}
        </select>
      </div>
    </div>
  );
}

/** Events under the days that they happened on. */
function List({ list }: { list: EventList }) {
  const days = useMemo(() => {
    const found: { day: string; events: Event[] }[] = [];
    for (const event of list) {
      const day = formatMoment(event.time).slice(0, 10);
      const last = found.at(-1);
      if (last?.day === day) last.events.push(event);
      else found.push({ day, events: [event] });
    }
    return found;
  }, [list]);
  return (
    <div className={styles.list}>
      {days.map(({ day, events }) => (
        <section key={day} aria-label={day}>
          <h2 className={styles.day}>{day}</h2>
          <ol aria-label={`Events of ${day}`}>
            {events.map((event) => (
              <Row key={event.id} event={event} />
            ))}
          </ol>
        </section>
      ))}
    </div>
  );
}

const marks = { good: '✓', bad: '✕', warn: '!', plain: '·' };
const spoken = { good: '', bad: 'went wrong: ', warn: 'attention: ', plain: '' };

const Row = memo(function Row({ event }: { event: Event }) {
  const tone = toneOf(event);
  return (
    <li className={styles.event}>
      <span className={styles.time}>
        <span className="number" title={formatMoment(event.time)}>
          {formatMoment(event.time).slice(11)}
        </span>
        <Age since={event.time} />
      </span>
      <span className={classes(styles.mark, tone !== 'plain' && styles[tone])} aria-hidden="true">
        {marks[tone]}
      </span>
      <span className={classes(styles.message, 'foreign')}>
        {spoken[tone] !== '' && <span className="only-read">{spoken[tone]}</span>}
        {event.message}
      </span>
      <span className={classes(styles.type, 'mono')} title={`event ${event.id}`}>
        {event.type}
      </span>
    </li>
  );
});

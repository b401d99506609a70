import type { Deployment } from '../api/types';
import { inFlight } from '../memory/deployment';
import { Age } from './Age';
import { Note } from './Note';

/** Who is interrupted, as far as it is known. */
export function Interrupted({ deployment }: { deployment: Deployment }) {
  const { name, state, busy, requests_in_flight, idle_since } = deployment;
  if (state !== 'ready') return <p>{name} does not serve at the moment: nobody is interrupted.</p>;
  if (busy === null) {
    return <Note kind="warning">Whether {name} has requests in flight is unknown; they would be interrupted.</Note>;
  }
  if (busy) {
    return (
      <Note kind="warning">
        {name} has {requests_in_flight === null ? 'requests in flight' : inFlight(requests_in_flight)}, interrupted by
        this.
      </Note>
    );
  }
  return (
    <p>
      {name} has no requests in flight
      {idle_since !== null && (
        <>
          {' '}
          and is idle for <Age since={idle_since} />
        </>
      )}
      .
    </p>
  );
}

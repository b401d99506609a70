import { lazy, Suspense, useEffect, useState } from 'react';
import type { History } from '../../api/types';
import { ErrorNote } from '../../components/Note';
import { Skeleton } from '../../components/Placeholder';
import { mergeHistory } from '../../memory/history';
import { onStreamed } from '../../state/daemon';
import { useResource } from '../../state/resource';

const HistoryChart = lazy(() => import('./HistoryChart'));

/** The last hour, with each new point as it is told. */
export function LastHour() {
  const { data, error, loading, reload } = useResource<History>('/api/v1/history');
  const [history, setHistory] = useState<History | null>(null);

  useEffect(() => setHistory(data), [data]);
  useEffect(
    () => onStreamed<History>('history', (more) => setHistory((old) => (old ? mergeHistory(old, more) : old))),
    [],
  );

  if (loading) return <Skeleton label="Reading the last hour" />;
  if (!history) return error && <ErrorNote error={error} what="The last hour could not be read" retry={reload} />;
  if (history.time_s.length < 2) {
    return <p className="quiet">The daemon has just started: the last hour is drawn here as it goes by.</p>;
  }
  return (
    <Suspense fallback={<Skeleton label="Drawing the last hour" />}>
      <HistoryChart history={history} />
    </Suspense>
  );
}

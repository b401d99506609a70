import { usePlace } from '../../app/router';
import { OperationPage } from './OperationPage';
import { OperationsPage } from './OperationsPage';
import { PlanSetPage } from './PlanSetPage';

/**
 * "#/plans/7": the plans of set 7; "#/plans/7?operation=3": one of them being carried out; "#/plans": those that were.
 */
export default function PlansPage() {
  const { rest, query } = usePlace();
  const operation = query.get('operation');
  const [set] = rest;
  if (operation !== null) return <OperationPage key={operation} id={operation} />;
  if (set !== undefined) return <PlanSetPage key={set} set={set} />;
  return <OperationsPage />;
}

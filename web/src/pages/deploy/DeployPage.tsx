import { usePlace } from '../../app/router';
import { DeployForm } from './DeployForm';
import { StartedPage } from './StartedPage';

/** "#/deploy": asks for a model; "#/deploy/3": how deployment 3 starts. */
export default function DeployPage() {
  const { rest } = usePlace();
  const id = Number(rest[0]);
  if (rest.length > 0 && Number.isInteger(id)) return <StartedPage key={id} id={id} />;
  return <DeployForm />;
}

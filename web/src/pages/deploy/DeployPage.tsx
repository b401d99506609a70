import { Empty } from '../../components/Placeholder';

export default function DeployPage() {
  return (
    <>
      <h1>Deploy</h1>
      <Empty title="This page is being made" />
    </>
  );
}

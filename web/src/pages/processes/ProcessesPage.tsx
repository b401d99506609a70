import { Empty } from '../../components/Placeholder';

export default function ProcessesPage() {
  return (
    <>
      <h1>Processes</h1>
      <Empty title="This page is being made" />
    </>
  );
}

import { Empty } from '../../components/Placeholder';

export default function MemoryPage() {
  return (
    <>
      <h1>Memory</h1>
      <Empty title="This page is being made" />
    </>
  );
}

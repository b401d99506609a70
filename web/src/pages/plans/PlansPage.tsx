import { Empty } from '../../components/Placeholder';

export default function PlansPage() {
  return (
    <>
      <h1>Does not fit</h1>
      <Empty title="This page is being made" />
    </>
  );
}

import { Empty } from '../../components/Placeholder';

export default function EventsPage() {
  return (
    <>
      <h1>Events</h1>
      <Empty title="This page is being made" />
    </>
  );
}

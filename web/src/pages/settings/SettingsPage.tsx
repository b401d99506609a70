import { Empty } from '../../components/Placeholder';

export default function SettingsPage() {
  return (
    <>
      <h1>Settings</h1>
      <Empty title="This page is being made" />
    </>
  );
}

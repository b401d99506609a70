import { Empty } from '../../components/Placeholder';

export default function CalibrationPage() {
  return (
    <>
      <h1>Calibration</h1>
      <Empty title="This page is being made" />
    </>
  );
}

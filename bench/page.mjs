// The page in a quiet browser: first paint, what an idle tab costs, how soon a change shows. Run it as
//   DGXMM=… DGXMM_LLAMA_SERVER=… DGXMM_TEST_MODEL=… DGXMM_TEST_MODELS_DIR=… node bench/page.mjs
import { goTo, openBrowser, openTab, row } from '../tests/browser/support/browser.mjs';
import { Daemon } from '../tests/browser/support/daemon.mjs';

const idle_s = 30;
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

const browser = await openBrowser();
const daemon = await Daemon.start({ budget_interval_s: 2 });
try {
  await daemon.deploy({ name: 'one' });
  const { id } = await daemon.becomes('one', 'ready');

  const paints = [];
  for (let run = 0; run < 7; ++run) {
    const page = await openTab(browser); // a context of its own: nothing is cached
    await goTo(page, daemon, 'memory');
    paints.push(
      await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Number.NaN),
    );
    await page.context().close();
  }
  console.log(
    `first contentful paint: median ${median(paints).toFixed(0)} ms, worst ${Math.max(...paints).toFixed(0)} ms`,
  );

  const page = await openTab(browser);
  await goTo(page, daemon, 'memory');
  const shown = [];
  for (let priority = 1; priority <= 20; ++priority) {
    const begun = performance.now();
    const seen = row(page, 'Deployments', 'one')
      .getByRole('cell', { name: String(priority), exact: true })
      .waitFor()
      .then(() => performance.now() - begun);
    await daemon.send('PATCH', `/deployments/${id}`, { priority });
    shown.push(await seen);
  }
  console.log(
    `change to DOM, with the call: median ${median(shown).toFixed(0)} ms, worst ${Math.max(...shown).toFixed(0)} ms`,
  );

  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const taken = async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
  };
  await page.waitForTimeout(5000);
  const before = await taken();
  await page.waitForTimeout(idle_s * 1000);
  const after = await taken();
  const share = (name) => (((after[name] - before[name]) / idle_s) * 100).toFixed(2);
  console.log(
    `idle tab, ${idle_s} s: ${share('TaskDuration')} % of a core in its main thread, ${share('ScriptDuration')} % script`,
  );
} finally {
  await browser.close();
  await daemon.close();
}

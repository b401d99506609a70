// 200 deployments and 500 processes: the page stays quick. The figures are for bench/RESULTS.md.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { assertNoComplaints, goTo, openBrowser, openTab, row } from './support/browser.mjs';
import { Crowd } from './support/crowd.mjs';
import { Daemon } from './support/daemon.mjs';

let browser, daemon, crowd;
before(async () => {
  [browser, daemon] = await Promise.all([openBrowser(), Daemon.start()]);
  await daemon.deploy({ name: 'real' });
  await daemon.becomes('real', 'ready');
  crowd = await Crowd.start(daemon, { deployments: 200, processes: 500 });
});
after(async () => {
  crowd?.close();
  await browser?.close();
  await daemon?.close();
});

/** Times between frames for a while, sorted, in milliseconds. */
function frames(page, time_ms) {
  return page.evaluate(
    (limit) =>
      new Promise((resolve) => {
        const times = [];
        const begin = performance.now();
        let last = begin;
        const frame = (now) => {
          times.push(now - last);
          last = now;
          if (now - begin < limit) requestAnimationFrame(frame);
          else resolve(times.slice(1).sort((a, b) => a - b));
        };
        requestAnimationFrame(frame);
      }),
    time_ms,
  );
}

for (const [name, table, text] of [
  ['memory', 'Deployments', 'model-1'],
  ['processes', /rocesses/, '100000'],
]) {
  test(`200 deployments and 500 processes on the page ${name}`, async () => {
    const page = await openTab(browser);
    await goTo(page, crowd, name);
    await row(page, table, text).first().waitFor();
    const times = await frames(page, 5000);
    const median = times[Math.floor(times.length / 2)];
    const worst = times.at(-1);
    console.log(
      `${name}: median frame ${median.toFixed(1)} ms, worst ${worst.toFixed(1)} ms, ${times.length} frames in 5 s`,
    );
    // So slow that it cannot be the machine: a page that draws every row anew five times a second.
    assert.ok(worst < 1000, `a frame took ${worst} ms`);
    assertNoComplaints(page);
    await page.context().close();
  });
}

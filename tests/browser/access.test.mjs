// Every page for everybody: axe's rules, both themes, a narrow screen.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { assertNoComplaints, goTo, openBrowser, openTab, pages } from './support/browser.mjs';
import { Daemon } from './support/daemon.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let browser, daemon;
before(async () => {
  [browser, daemon] = await Promise.all([openBrowser(), Daemon.start()]);
  await daemon.deploy({ name: 'first' });
  await daemon.becomes('first', 'ready');
});
after(async () => {
  await browser?.close();
  await daemon?.close();
});

/** Serious and critical faults, as "rule: place". */
async function faults(page) {
  await page.evaluate(axe); // over the debugger: the page's policy forbids a script element
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`),
    );
}

for (const [theme, width] of [
  ['light', 1440],
  ['dark', 1440],
  ['light', 360],
  ['dark', 360],
]) {
  test(`no serious fault, ${theme}, ${width} pixels wide`, async () => {
    const page = await openTab(browser, { theme, width });
    for (const name of pages) {
      await goTo(page, daemon, name);
      assert.deepEqual(await faults(page), [], name);
      const { wide, room } = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth,
        room: document.documentElement.clientWidth,
      }));
      assert.ok(wide <= room, `${name} is ${wide} wide in a window of ${room}`);
      assert.equal(await page.getByRole('heading', { level: 1 }).count(), 1, `${name} has one first heading`);
    }
    assertNoComplaints(page);
    await page.context().close();
  });
}

// Writes the pictures of docs/screenshots: each page in both themes, and three on a telephone. For ./dev screenshots.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { goTo, openBrowser, openTab, settled } from './support/browser.mjs';
import { Daemon, memTotal_bytes, model } from './support/daemon.mjs';

const folder = process.argv[2] ?? 'docs/screenshots';
mkdirSync(folder, { recursive: true });

const browser = await openBrowser();
const margin_bytes = 8 * 1024 ** 3; // the default, so that the bar looks as people see it
const daemon = await Daemon.start({ room_bytes: memTotal_bytes() - margin_bytes - 1024 ** 3 });
try {
  for (const name of ['assistant', 'coder']) {
    await daemon.deploy({ name, ctx_size: 65_536, parallel: 8, cache_ram_mib: 1024 });
    await daemon.becomes(name, 'ready');
  }
  await new Promise((resolve) => setTimeout(resolve, 25_000)); // two points of the last hour
  const { document: plans } = await daemon.send('POST', '/plans', { model: model(), ctx_size: 409_600, parallel: 64 });
  const pages = {
    memory: 'memory',
    deploy: `deploy?model=${encodeURIComponent(model())}&context=409600&sequences=64`,
    'does-not-fit': `plans/${plans.plan_set}`,
    calibration: 'calibration',
    processes: 'processes',
    events: 'events',
    settings: 'settings',
  };
  const take = async (page, name, address) => {
    await goTo(page, daemon, address);
    await page.waitForTimeout(1500); // charts and estimates
    await settled(page);
    await page.screenshot({ path: join(folder, `${name}.png`) });
  };
  for (const theme of ['light', 'dark']) {
    const page = await openTab(browser, { theme, width: 1280, height: 860 });
    for (const [name, address] of Object.entries(pages)) await take(page, `${name}-${theme}`, address);
  }
  const phone = await openTab(browser, { width: 360, height: 780 });
  for (const name of ['memory', 'deploy', 'does-not-fit']) await take(phone, `${name}-phone`, pages[name]);
} finally {
  await browser.close();
  await daemon.close();
}

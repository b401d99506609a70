// A substitute, for what this machine cannot run: 200 engines. It serves the real page, and the real documents of a
// daemon with one deployment, in which that deployment and one process stand many times over.
import { createServer } from 'node:http';

const changes_per_s = 5;

function times(count, make) {
  return Array.from({ length: count }, (_, index) => make(index));
}

export class Crowd {
  #server;
  #streams = new Set();
  #timer;

  constructor(daemon, deployments, processes) {
    this.daemon = daemon;
    this.deployments = deployments;
    this.processes = processes;
  }

  static async start(daemon, { deployments, processes }) {
    const crowd = new Crowd(daemon, deployments, processes);
    await crowd.#read();
    crowd.#server = createServer((request, response) => void crowd.#answer(request, response));
    await new Promise((resolve) => crowd.#server.listen(0, '127.0.0.1', resolve));
    crowd.url = `http://127.0.0.1:${crowd.#server.address().port}`;
    let step = 0;
    crowd.#timer = setInterval(() => crowd.#change(++step), 1000 / changes_per_s);
    return crowd;
  }

  close() {
    clearInterval(this.#timer);
    for (const stream of this.#streams) stream.destroy();
    this.#server.closeAllConnections?.();
    this.#server.close();
  }

  async #read() {
    const [budget, [deployment], processes] = await Promise.all([
      this.daemon.get('/budget'),
      this.daemon.get('/deployments'),
      this.daemon.get('/processes'),
    ]);
    const share = budget.deployments[0];
    this.budget = {
      ...budget,
      deployments: times(this.deployments, (index) => ({ ...share, id: index + 1, name: `model-${index + 1}` })),
    };
    this.documents = {
      '/api/v1/deployments': times(this.deployments, (index) => ({
        ...deployment,
        id: index + 1,
        name: `model-${index + 1}`,
      })),
      '/api/v1/processes': {
        ...processes,
        processes: times(this.processes, (index) => ({ ...processes.processes[0], pid: 100_000 + index })),
      },
    };
  }

  /** A tenth of the deployments holds something else than before, as a refresh of the budget finds it. */
  #change(step) {
    this.budget = {
      ...this.budget,
      revision: this.budget.revision + 1,
      deployments: this.budget.deployments.map((one, index) =>
        index % 10 === step % 10
          ? {
              ...one,
              measured: one.measured && { ...one.measured, total_bytes: one.measured.total_bytes + step * 4096 },
            }
          : one,
      ),
    };
    const text = `event: budget\ndata: ${JSON.stringify(this.budget)}\n\n`;
    for (const stream of this.#streams) stream.write(text);
  }

  async #answer(request, response) {
    const path = new URL(request.url, this.url).pathname;
    if (path === '/api/v1/events') {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.write(': here\n\n');
      this.#streams.add(response);
      response.on('close', () => this.#streams.delete(response));
      return;
    }
    const document = path === '/api/v1/budget' ? this.budget : this.documents[path];
    if (document) {
      response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(document));
      return;
    }
    const real = await fetch(this.daemon.url + request.url);
    const headers = Object.fromEntries(real.headers);
    delete headers['content-encoding']; // fetch has unpacked it
    delete headers['content-length'];
    delete headers['transfer-encoding'];
    response.writeHead(real.status, headers).end(Buffer.from(await real.arrayBuffer()));
  }
}

// Endpoints that answer eth_getBalance after a while, each as badly as it is told to, and count what they are asked.
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const BASE_MS = 10;
const SLOW_MS = 300;
const SLOW_SHARE = 0.05;
const RESULTS = { eth_chainId: '0x7a69', net_version: '31337', eth_blockNumber: '0x10', eth_getBalance: '0x1' };

function endpoint() {
  const state = { fault: 'none', reads: 0, others: 0 };
  const server = createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const asked = JSON.parse(Buffer.concat(chunks));
      const calls = Array.isArray(asked) ? asked : [asked];
      for (const { method } of calls) {
        if (method === 'eth_getBalance') state.reads += 1;
        else state.others += 1;
      }
      if (state.fault === 'hung') return;
      const late = state.fault === 'slow' && Math.random() < SLOW_SHARE ? SLOW_MS : 0;
      const answers = calls.map(({ id, method }) => ({ jsonrpc: '2.0', id, result: RESULTS[method] ?? null }));
      const body = JSON.stringify(Array.isArray(asked) ? answers : answers[0]);
      const head = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
      setTimeout(() => response.writeHead(200, head).end(body), BASE_MS + late);
    });
  });
  server.keepAliveTimeout = 60_000;
  return { state, server };
}

const endpoints = [endpoint(), endpoint(), endpoint()];
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
await lines.next();
await Promise.all(endpoints.map(({ server }) => new Promise((open) => server.listen(0, '127.0.0.1', open))));
console.log('ready');
console.log(JSON.stringify(endpoints.map(({ server }) => `http://127.0.0.1:${server.address().port}`)));
// Each line names the fault of each endpoint; the answer is what they were asked since the line before.
for (let line = await lines.next(); !line.done; line = await lines.next()) {
  const faults = JSON.parse(line.value);
  console.log(JSON.stringify(endpoints.map(({ state: { reads, others } }) => ({ reads, others }))));
  endpoints.forEach(({ state, server }, at) => {
    Object.assign(state, { fault: faults[at], reads: 0, others: 0 });
    if (faults[at] !== 'hung') return;
    server.closeIdleConnections();
  });
}
console.log('{}');
process.exit(0);

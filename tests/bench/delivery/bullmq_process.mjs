// BullMQ's side in Node: its own Worker over a processor that does nothing.
import { createRequire } from 'node:module';
import { countdown, measured } from './peer_protocol.mjs';

const { Queue, Worker } = createRequire(process.argv[2])('bullmq');
const NAME = 'bench';
const BATCH = 1000;

await measured(async ({ redis_url, jobs, concurrency }) => {
  const { hostname, port, password } = new URL(redis_url);
  const connection = { host: hostname, port: Number(port), password, maxRetriesPerRequest: null };
  const queue = new Queue(NAME, { connection });
  for (let first = 0; first < jobs; first += BATCH) {
    const length = Math.min(BATCH, jobs - first);
    await queue.addBulk(Array.from({ length }, (_, at) => ({ name: 'no_op', data: { n: first + at } })));
  }
  const worker = new Worker(NAME, async () => {}, { connection, concurrency, autorun: false });
  await worker.waitUntilReady();
  return async () => {
    const { tick, reached } = countdown(jobs);
    worker.on('completed', tick);
    worker.run();
    await reached;
    return queue.getCompletedCount();
  };
});

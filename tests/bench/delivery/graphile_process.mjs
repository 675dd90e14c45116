// graphile-worker's side, with or without its local queue, over a task that does nothing.
import { createRequire } from 'node:module';
import { setTimeout } from 'node:timers/promises';
import { countdown, measured } from './peer_protocol.mjs';

const require = createRequire(process.argv[2]);
const { Logger, makeWorkerUtils, run } = require('graphile-worker');
const { Pool } = require('pg');
const BATCH = 5000;
const LOOK_MILLISECONDS = 2;
const silent = new Logger(() => () => {});
// What its own documentation measures with: prefetching, and completions gathered.
const BATCHED = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };

await measured(async ({ database_url, jobs, concurrency, local_queue }) => {
  const control = new Pool({ connectionString: database_url, max: 1 });
  const utils = await makeWorkerUtils({ connectionString: database_url, logger: silent });
  await utils.migrate();
  for (let first = 0; first < jobs; first += BATCH) {
    const length = Math.min(BATCH, jobs - first);
    await utils.addJobs(Array.from({ length }, (_, at) => ({ identifier: 'no_op', payload: { n: first + at } })));
  }
  await utils.release();
  return async () => {
    const { tick, reached } = countdown(jobs);
    const worker = {
      connectionString: database_url,
      concurrentJobs: concurrency,
      maxPoolSize: concurrency + 1,
      logger: silent,
      ...(local_queue ? BATCHED : {}),
    };
    await run({ preset: { worker }, taskList: { no_op: async () => tick() }, noHandleSignals: true });
    await reached;
    // A job is done when its row is gone; the last handler ends a little earlier.
    for (;;) {
      const { rows } = await control.query('SELECT count(*)::int AS left_over FROM graphile_worker._private_jobs');
      if (rows[0].left_over === 0) return jobs;
      await setTimeout(LOOK_MILLISECONDS);
    }
  };
});

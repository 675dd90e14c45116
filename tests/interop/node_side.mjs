// The Node half of the interoperability tests: the official bullmq of Node on the queue that Python uses.
// Usage: node node_side.mjs <tools/node/package.json> <connection, prefix and queue as JSON> <verb> <arguments as JSON>
// The answer is the last line of standard output, as JSON.
import { createRequire } from 'node:module';

const [packageFile, target, verb, argument] = process.argv.slice(2);
const { Queue, QueueEvents, Worker } = createRequire(packageFile)('bullmq');
const { connection, prefix, name } = JSON.parse(target);
const args = JSON.parse(argument);

const queue = new Queue(name, { connection, prefix });
const opened = [queue];

function events() {
  const made = new QueueEvents(name, { connection, prefix });
  opened.push(made);
  return made;
}

function worker(processor, options = {}) {
  const made = new Worker(name, processor, { connection: { ...connection, maxRetriesPerRequest: null }, prefix, ...options });
  made.on('error', (error) => console.error(error));
  opened.push(made);
  return made;
}

function shown(job) {
  return {
    id: job.id,
    name: job.name,
    data: job.data,
    priority: job.priority,
    attemptsMade: job.attemptsMade,
    attempts: job.opts.attempts,
    failedReason: job.failedReason,
    returnvalue: job.returnvalue,
  };
}

const verbs = {
  // How a person with bull-board sees the queue.
  async look({ ids }) {
    const jobs = await Promise.all(ids.map((id) => queue.getJob(id)));
    const states = await Promise.all(ids.map((id) => queue.getJobState(id)));
    return { counts: await queue.getJobCounts(), states, jobs: jobs.map(shown) };
  },

  // Add in one of Node's ways, and wait for each result when asked to.
  async add({ jobs, bulk, await_results: awaitResults }) {
    const listener = awaitResults ? events() : undefined;
    await listener?.waitUntilReady();
    const added = bulk ? await queue.addBulk(jobs) : await Promise.all(jobs.map((job) => queue.add(job.name, job.data, job.opts)));
    console.log('added');
    const results = listener ? await Promise.all(added.map((job) => job.waitUntilFinished(listener, 20000))) : [];
    return { ids: added.map((job) => job.id), results };
  },

  // Work until `count` jobs are completed; the first `failures` attempts of each job fail.
  async work({ count, failures = 0 }) {
    const done = [];
    const began = {};
    await new Promise((resolve) => {
      worker(
        async (job) => {
          (began[job.id] ??= []).push(Date.now());
          if (job.attemptsMade < failures) {
            throw new Error(`attempt ${job.attemptsMade}`);
          }
          return { by: 'node', echo: job.data };
        },
        { concurrency: 8, drainDelay: 1 },
      ).on('completed', (job) => {
        done.push(shown(job));
        if (done.length >= count) resolve();
      });
    });
    return { done, began };
  },

  // Work until nothing has come for a while.
  async share({ quiet_milliseconds: quiet }) {
    const ids = [];
    await new Promise((resolve) => {
      let timer = setTimeout(resolve, quiet);
      worker(async (job) => {
        ids.push(job.id);
        clearTimeout(timer);
        timer = setTimeout(resolve, quiet);
      }, { concurrency: 4, drainDelay: 1 });
      console.log('ready');
    });
    return { ids };
  },

  // Take one job and never finish it; the test kills this process.
  async hang({ lock_milliseconds: lockDuration }) {
    await new Promise(() => {
      worker(
        async (job) => {
          console.log(job.id);
          await new Promise(() => {});
        },
        { lockDuration, stalledInterval: 100 },
      );
    });
  },

  async pause({ paused }) {
    await (paused ? queue.pause() : queue.resume());
    return {};
  },
};

const answer = await verbs[verb](args);
await Promise.all(opened.map((each) => each.close()));
console.log(JSON.stringify(answer));

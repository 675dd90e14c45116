// The other half of child.py for peers in Node: settings, ready, go, answer.
import { once } from 'node:events';
import { createInterface } from 'node:readline';

// `prepare(settings)` seeds and returns a function that works everything off; that one's answer is how many jobs the
// peer's own store then calls done.
export async function measured(prepare) {
  const lines = createInterface({ input: process.stdin });
  // Standard input ends before we do only when the parent was killed.
  lines.on('close', () => process.exit(1));
  const [settings] = await once(lines, 'line');
  const burn = await prepare(JSON.parse(settings));
  const told = once(lines, 'line');
  console.log('ready');
  await told;
  const began = performance.now();
  const done = await burn();
  const seconds = (performance.now() - began) / 1000;
  process.stdout.write(`${JSON.stringify({ done, seconds })}\n`, () => process.exit(0));
}

// Resolves once it was called so many times.
export function countdown(count) {
  let resolve;
  const reached = new Promise((done) => {
    resolve = done;
  });
  let remaining = count;
  const tick = () => {
    remaining -= 1;
    if (remaining === 0) resolve();
  };
  return { tick, reached };
}

// The other half of tests/bench/rpc/load.py: for each line of settings, read and tell how long each read took.
import { createInterface } from 'node:readline';

const address = (number) => `0x${number.toString(16).padStart(40, '0')}`;

// `prepared` takes the settings and gives what asks for the balance of an address.
export async function loaded(prepared) {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const settings = JSON.parse((await lines.next()).value);
  const read = await prepared(settings);
  console.log('ready');
  let number = 1;
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const { reads, in_flight, seconds_max } = JSON.parse(line.value);
    const ended = Date.now() + 1000 * seconds_max;
    const milliseconds = [];
    const running = new Set();
    let left = reads;
    let failed = 0;
    const work = async () => {
      while (left > 0 && Date.now() < ended) {
        left -= 1;
        const began = performance.now();
        running.add(began);
        try {
          await read(address((number += 1)));
        } catch {
          failed += 1;
        }
        running.delete(began);
        milliseconds.push(performance.now() - began);
      }
    };
    const late = new Promise((resolve) => setTimeout(resolve, 1000 * seconds_max + 500));
    await Promise.race([Promise.all(Array.from({ length: in_flight }, work)), late]);
    // What has no answer yet took at least so long.
    for (const began of running) milliseconds.push(performance.now() - began);
    console.log(JSON.stringify({ milliseconds: milliseconds.map((value) => Number(value.toFixed(2))), failed }));
  }
  console.log('{}');
  process.exit(0);
}

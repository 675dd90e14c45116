// The other half of peers.py: one cell at a time, a line in and a line out: open, warm, ask, close.
import { createInterface } from 'node:readline';

// ethers reports trouble at its start there, and standard output is for answers.
console.log = console.error;

export async function serve(open) {
  const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
  let asking;
  say({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    const told = JSON.parse(line);
    if (told.do === 'open') {
      asking = open(told);
      say({});
    } else if (told.do === 'warm') {
      for (let below = 1; below <= told.times; below += 1) await outcome(() => asking.warm(below));
      say({});
    } else if (told.do === 'ask') {
      say(await outcome(() => asking.ask()));
    } else {
      await outcome(async () => asking.close());
      say({});
    }
  }
  process.exit(0);

  async function outcome(act) {
    try {
      return { kind: 'value', value: (await act()) ?? null };
    } catch (error) {
      return asking.failure(error);
    }
  }
}

export const lower = (text) => (typeof text === 'string' ? text.toLowerCase() : null);

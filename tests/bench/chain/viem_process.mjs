// viem as its documentation has it: local accounts with its nonceManager, gas and fees asked for each transaction.
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const load = createRequire(process.argv[2]);
const { createWalletClient, http, nonceManager, pad, toHex, encodeFunctionData, parseAbi } = load('viem');
const { privateKeyToAccount } = load('viem/accounts');
const { foundry } = load('viem/chains');
const abi = parseAbi(['function record(bytes32 jobId)']);

const lines = createInterface({ input: process.stdin });
lines.on('close', () => process.exit(1));
const settings = JSON.parse((await once(lines, 'line'))[0]);
const transport = http(settings.url, { batch: settings.batched ? { batchSize: 100 } : false, retryCount: 0, timeout: 60_000 });
const clients = settings.keys.map((key) =>
  createWalletClient({ account: privateKeyToAccount(key, { nonceManager }), chain: foundry, transport }),
);
const told = once(lines, 'line');
console.log('ready');
await told;
const began = performance.now();
const ended = began + 1000 * settings.seconds;
let number = 0;
let sent = 0;
const work = async (client) => {
  while (performance.now() < ended) {
    const data = encodeFunctionData({ abi, functionName: 'record', args: [pad(toHex((number += 1)), { size: 32 })] });
    await client.sendTransaction({ to: settings.contract, data });
    sent += 1;
  }
};
await Promise.all(Array.from({ length: settings.in_flight }, (_, at) => work(clients[at % clients.length])));
const seconds = (performance.now() - began) / 1000;
process.stdout.write(`${JSON.stringify({ sent, seconds })}\n`, () => process.exit(0));

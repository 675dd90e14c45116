// viem's fallback transport, which ranks its endpoints by its own pings.
import { createRequire } from 'node:module';
import { loaded } from './load.mjs';

const { createPublicClient, fallback, http } = createRequire(process.argv[2])('viem');

await loaded(async ({ urls }) => {
  const client = createPublicClient({ transport: fallback(urls.map((url) => http(url)), { rank: true }) });
  const read = (address) => client.getBalance({ address, blockNumber: 16n });
  await read(`0x${'0'.repeat(40)}`);
  return read;
});

// ethers' FallbackProvider, content with one answer, in the order of the URLs, as tayho is.
import { createRequire } from 'node:module';
import { loaded } from './load.mjs';

const { FallbackProvider, JsonRpcProvider, Network } = createRequire(process.argv[2])('ethers');
const network = Network.from(31337);

await loaded(async ({ urls }) => {
  const providers = urls.map((url, at) => ({
    provider: new JsonRpcProvider(url, network, { staticNetwork: network, batchMaxCount: 1 }),
    priority: at + 1,
    weight: 1,
  }));
  const provider = new FallbackProvider(providers, network, { quorum: 1 });
  const read = (address) => provider.getBalance(address, 16);
  await read(`0x${'0'.repeat(40)}`);
  return read;
});

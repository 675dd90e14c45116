// viem's fallback transport: the next endpoint when one fails. It has no votes, so every way is a read.
import { createRequire } from 'node:module';
import { lower, serve } from './peer_talk.mjs';

const require = createRequire(process.argv[2]);
const { BaseError, TransactionReceiptNotFoundError, createPublicClient, defineChain, fallback, http } = require('viem');

const STATUSES = { success: 1, reverted: 0 };
const TYPES = { legacy: 0, eip2930: 1, eip1559: 2, eip4844: 3, eip7702: 4 };

function receiptForm(receipt) {
  return receipt && {
    blockHash: receipt.blockHash,
    blockNumber: Number(receipt.blockNumber),
    index: receipt.transactionIndex,
    status: STATUSES[receipt.status] ?? null,
    from: lower(receipt.from),
    to: lower(receipt.to),
    contractAddress: lower(receipt.contractAddress),
    gasUsed: String(receipt.gasUsed),
    cumulativeGasUsed: String(receipt.cumulativeGasUsed),
    effectiveGasPrice: String(receipt.effectiveGasPrice),
    type: TYPES[receipt.type] ?? Number(receipt.type),
    logs: receipt.logs.map((log) => [lower(log.address), log.topics, log.data, log.logIndex]),
  };
}

function blockForm(block) {
  return block && {
    hash: block.hash,
    parentHash: block.parentHash,
    number: Number(block.number),
    timestamp: Number(block.timestamp),
    gasUsed: String(block.gasUsed),
    gasLimit: String(block.gasLimit),
    baseFeePerGas: String(block.baseFeePerGas),
    stateRoot: block.stateRoot,
    receiptsRoot: block.receiptsRoot,
    miner: lower(block.miner),
  };
}

await serve(({ urls, question, about, endpointMilliseconds }) => {
  const chain = defineChain({
    id: about.chainId,
    name: 'local',
    nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
    rpcUrls: { default: { http: urls } },
  });
  const transports = urls.map((url) => {
    return http(url, { timeout: endpointMilliseconds, retryCount: 0, batch: question === 'batch' });
  });
  // Not its three retries a second apart: every cell must end within one deadline.
  const client = createPublicClient({ chain, transport: fallback(transports, { retryCount: 0 }), cacheTime: 0 });
  const nonce = (height) => client.getTransactionCount({ address: about.account, blockNumber: BigInt(height) });
  // Its error for a receipt that is not there yet is the null of the others.
  const receipt = () => {
    return client.getTransactionReceipt({ hash: about.transaction }).catch((error) => {
      if (error instanceof TransactionReceiptNotFoundError) return null;
      throw error;
    });
  };

  async function final() {
    const found = await receipt();
    if (!found) return null;
    if ((await client.getBlockNumber()) < found.blockNumber + BigInt(about.depth)) return null;
    const block = await client.getBlock({ blockNumber: found.blockNumber });
    return block.hash === found.blockHash ? { blockHash: found.blockHash, status: STATUSES[found.status] } : null;
  }

  async function put(below) {
    const height = about.height - below;
    switch (question) {
      case 'nonce':
        return nonce(height);
      case 'receipt':
        return receiptForm(await receipt());
      case 'block':
        return blockForm(await client.getBlock({ blockNumber: BigInt(height) }));
      case 'head':
        return Number(await client.getBlockNumber());
      case 'call': {
        const call = { account: about.account, to: about.contract, blockNumber: BigInt(height) };
        return (await client.call(call)).data ?? '0x';
      }
      case 'batch':
        return Promise.all(about.batch.map((each) => nonce(each - Math.min(below, 1))));
      default:
        return final();
    }
  }

  return {
    warm: (below) => put(below),
    ask: () => put(0),
    close() {},
    failure(error) {
      const name = String(error?.name ?? error);
      return { kind: error instanceof BaseError ? 'error' : 'raw', name };
    },
  };
});

// ethers FallbackProvider: any one answers a read, two of three must agree in a vote and in finality.
import { createRequire } from 'node:module';
import { lower, serve } from './peer_talk.mjs';

const require = createRequire(process.argv[2]);
const { FallbackProvider, FetchRequest, JsonRpcProvider, isError } = require('ethers');
const STALL_MILLISECONDS = 100;

function receiptForm(receipt) {
  return receipt && {
    blockHash: receipt.blockHash,
    blockNumber: receipt.blockNumber,
    index: receipt.index,
    status: receipt.status,
    from: lower(receipt.from),
    to: lower(receipt.to),
    contractAddress: lower(receipt.contractAddress),
    gasUsed: String(receipt.gasUsed),
    cumulativeGasUsed: String(receipt.cumulativeGasUsed),
    effectiveGasPrice: String(receipt.gasPrice),
    type: receipt.type,
    logs: receipt.logs.map((log) => [lower(log.address), [...log.topics], log.data, log.index]),
  };
}

function blockForm(block) {
  return block && {
    hash: block.hash,
    parentHash: block.parentHash,
    number: block.number,
    timestamp: block.timestamp,
    gasUsed: String(block.gasUsed),
    gasLimit: String(block.gasLimit),
    baseFeePerGas: String(block.baseFeePerGas),
    stateRoot: block.stateRoot,
    receiptsRoot: block.receiptsRoot,
    miner: lower(block.miner),
  };
}

await serve(({ urls, question, votes, about, endpointMilliseconds }) => {
  const providers = urls.map((url) => {
    const request = new FetchRequest(url);
    request.timeout = endpointMilliseconds;
    return new JsonRpcProvider(request, undefined, { cacheTimeout: -1, batchMaxCount: question === 'batch' ? 100 : 1 });
  });
  const configured = providers.map((provider, place) => {
    return { provider, priority: place + 1, stallTimeout: STALL_MILLISECONDS, weight: 1 };
  });
  const quorum = votes ? Math.floor(urls.length / 2) + 1 : 1;
  const fallback = new FallbackProvider(configured, about.chainId, { quorum, cacheTimeout: -1 });
  const nonce = (height) => fallback.getTransactionCount(about.account, height);

  async function final() {
    const receipt = await fallback.getTransactionReceipt(about.transaction);
    if (!receipt) return null;
    if ((await fallback.getBlockNumber()) < receipt.blockNumber + about.depth) return null;
    const block = await fallback.getBlock(receipt.blockNumber);
    return block?.hash === receipt.blockHash ? { blockHash: receipt.blockHash, status: receipt.status } : null;
  }

  function put(below) {
    const height = about.height - below;
    switch (question) {
      case 'nonce':
        return nonce(height);
      case 'receipt':
        return fallback.getTransactionReceipt(about.transaction).then(receiptForm);
      case 'block':
        return fallback.getBlock(height).then(blockForm);
      case 'head':
        return fallback.getBlockNumber();
      case 'call':
        return fallback.call({ from: about.account, to: about.contract, blockTag: height });
      case 'batch':
        return Promise.all(about.batch.map((each) => nonce(each - Math.min(below, 1))));
      default:
        return final();
    }
  }

  return {
    warm: (below) => put(below),
    ask: () => put(0),
    close() {
      for (const provider of providers) provider.destroy();
      fallback.destroy();
    },
    failure(error) {
      const name = String(error?.code ?? error?.name ?? error);
      if (!isError(error, error?.code)) return { kind: 'raw', name };
      return { kind: /quorum/.test(error.message) ? 'no quorum' : 'error', name };
    },
  };
});

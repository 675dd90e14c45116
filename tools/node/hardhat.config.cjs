// The second node implementation that the reads are tested against. A transaction that reverts is mined, as on a chain.
module.exports = { networks: { hardhat: { chainId: 31337, throwOnTransactionFailures: false } } };

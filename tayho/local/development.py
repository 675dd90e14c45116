"""What a local chain gives away: accounts whose keys the whole world knows, and a contract on it."""

from __future__ import annotations

import trio
from eth_utils.conversions import to_hex

from rpc import methods
from rpc.quantities import hash32
from rpc.reads import Call, Reads
from tayho.kernel.address import Address

# The first accounts of anvil's and hardhat's public mnemonic; never to hold anything of value.
PUBLIC_ACCOUNTS: tuple[tuple[str, str], ...] = (
    (
        "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    ),
    (
        "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    ),
)
# The third account deploys; the node holds its key and signs for it.
DEPLOYER = Address.parse("0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC")


class DeploymentFailed(Exception):
    """The local node did not take the contract."""


async def deploy(node: Reads, bytecode: bytes) -> Address:
    """Create a contract on a development node, which signs for its accounts. Raises RpcError, DeploymentFailed.

    Waits for the receipt block by block; the caller bounds it.
    """
    sent: Call[bytes] = Call(
        "eth_sendTransaction",
        ({"from": str(DEPLOYER), "data": to_hex(bytecode)},),
        hash32,
        is_write=True,
    )
    tx_hash = await node.ask(sent)
    while True:
        receipt = await node.ask(methods.transaction_receipt(tx_hash))
        if receipt is not None:
            break
        await trio.sleep(0.1)
    if not receipt.succeeded or receipt.contract_address is None:
        raise DeploymentFailed(f"creating the contract in transaction 0x{tx_hash.hex()} failed")
    return Address(receipt.contract_address)

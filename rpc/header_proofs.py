"""Whether a header is what its hash names: the first link of every proof."""

from __future__ import annotations

from collections.abc import Sequence

from eth_utils.crypto import keccak

from rpc.proof_errors import ProofRefuted, Unprovable
from rpc.rlp_items import Rlp, encode, integer
from rpc.values import Header


def header_hash(header: Header) -> bytes:
    """The hash that the header's fields make, through Osaka (Yellow Paper 4.3; EIP-1559, 4895, 4844, 4788, 7685).

    Raises Unprovable where the node left out a field that every fork up to the header's own has.
    """
    always: list[tuple[str, Rlp | None]] = [
        ("parentHash", header.parent_hash),
        ("sha3Uncles", header.uncles_hash),
        ("miner", header.miner),
        ("stateRoot", header.state_root),
        ("transactionsRoot", header.transactions_root),
        ("receiptsRoot", header.receipts_root),
        ("logsBloom", header.logs_bloom),
        ("difficulty", _number(header.difficulty)),
        ("number", integer(header.number)),
        ("gasLimit", integer(header.gas_limit)),
        ("gasUsed", integer(header.gas_used)),
        ("timestamp", integer(header.timestamp_seconds)),
        ("extraData", header.extra_data),
        ("mixHash", header.mix_hash),
        ("nonce", header.nonce),
    ]
    return bytes(keccak(encode(_required(header, [*always, *_by_fork(header)]))))


def verify_header(header: Header) -> None:
    """Return when the header's fields make its hash: then nothing in it can be false.

    Raises:
        Unprovable: they do not, and a field that we do not know, or that the node left out, may be why.
        ProofRefuted: they do not, and all are there: one is false.
    """
    made = header_hash(header)
    if made == header.hash:
        return
    subject = f"block {header.number} 0x{header.hash.hex()}"
    if header.unknown_members:
        raise Unprovable(
            f"{subject}: its fields do not make its hash, and it has members that we do not know, perhaps of a later "
            f"fork: {', '.join(header.unknown_members)}"
        )
    if header.requests_hash is None:
        raise Unprovable(f"{subject}: its fields do not make its hash; one is false, or the node left some out")
    raise ProofRefuted(subject, "the hash", f"0x{made.hex()}", f"0x{header.hash.hex()}")


def _by_fork(header: Header) -> list[tuple[str, Rlp | None]]:
    """The fields that forks added, as far as this header has them: each needs all before it."""
    added: list[tuple[str, Rlp | None]] = [
        ("baseFeePerGas", _number(header.base_fee_per_gas_wei)),
        ("withdrawalsRoot", header.withdrawals_root),
        ("blobGasUsed", _number(header.blob_gas_used)),
        ("excessBlobGas", _number(header.excess_blob_gas)),
        ("parentBeaconBlockRoot", header.parent_beacon_block_root),
        ("requestsHash", header.requests_hash),
    ]
    while added and added[-1][1] is None:
        added.pop()
    return added


def _required(header: Header, fields: Sequence[tuple[str, Rlp | None]]) -> list[Rlp]:
    missing = [name for name, value in fields if value is None]
    if missing:
        raise Unprovable(f"block {header.number} 0x{header.hash.hex()} was told without {', '.join(missing)}")
    return [value for _, value in fields if value is not None]


def _number(number: int | None) -> bytes | None:
    return None if number is None else integer(number)

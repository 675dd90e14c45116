"""The published answers of ethereum/execution-apis, proven: what their own headers commit to, and nothing near it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from eth_utils.crypto import keccak

from rpc import proofs, schemas
from rpc.rendering import Json, render
from rpc.rlp_items import decode, encode, integer
from rpc.trie import root_of
from tests.conformance.published import ASKED, FOLDER, data, pairs
from tests.rpc.conformance import FLIPS_PER_VALUE, caught, provables

if not FOLDER.is_dir():
    pytest.skip(f"no published answers: {FOLDER} does not exist", allow_module_level=True)

# Members of answers that are no part of our values.
LEFT_OUT = {
    "block": {"size", "transactions", "uncles", "withdrawals"},
    "transaction": {
        *("blockTimestamp", "accessList", "authorizationList", "blobVersionedHashes", "maxFeePerBlobGas"),
        *("v", "r", "s", "yParity"),
    },
    "receipt": {"blobGasPrice", "blobGasUsed", "blockTimestamp"},
    "log": {"blockTimestamp"},
    "fee history": {"baseFeePerBlobGas", "blobGasUsedRatio"},
    "account proof": set[str](),
}
KINDS = {
    "eth_getBlockByHash": "block",
    "eth_getBlockByNumber": "block",
    "eth_getTransactionByHash": "transaction",
    "eth_getTransactionReceipt": "receipt",
    "eth_getBlockReceipts": "receipt",
    "eth_getLogs": "log",
    "eth_feeHistory": "fee history",
    "eth_getProof": "account proof",
}
# What no proof looks at, because no value of ours holds it.
UNREAD = {
    "header": {"size", "withdrawals", "uncles"},
    "transactions": {"blockNumber", "blockTimestamp", "gasPrice"},
    "block receipts": {"blockTimestamp"},
    "account proof": set[str](),
}


def same_meaning(told: Any, ours: Json, left_out: set[str], path: str) -> None:
    """Every member that is not left out says the same; what we add is null, false, or follows from the rest."""
    if isinstance(told, dict):
        assert isinstance(ours, dict), path
        added = {name for name, value in ours.items() if value not in (None, False)} - told.keys()
        assert added <= {"logsBloom"}, path
        for name in told.keys() - left_out:
            inner = LEFT_OUT["log"] if name == "logs" else left_out
            if told[name] is not None or ours.get(name) is not None:
                assert name in ours, f"{path}.{name} is lost"
                same_meaning(told[name], ours[name], inner, f"{path}.{name}")
    elif isinstance(told, list):
        assert isinstance(ours, list), path
        assert len(ours) == len(told), path
        for place, (item, our_item) in enumerate(zip(told, ours, strict=True)):
            same_meaning(item, our_item, left_out, f"{path}[{place}]")
    elif path.endswith(".key"):
        assert int(told, 16) == int(str(ours), 16), path
    elif isinstance(told, str):
        assert told.lower() == ours, path
    else:
        assert told == ours or float(told) == ours, path


def test_every_answer_is_written_again_with_the_same_meaning() -> None:
    """Goal: evidence says what the node said. Method: each published answer, read and rendered, member by member."""
    written: Counter[str] = Counter()
    for published in pairs():
        if published.method not in ASKED or published.is_error:
            continue
        value = ASKED[published.method](published.params).parse(published.result)
        left_out = LEFT_OUT.get(KINDS.get(published.method, ""), set())
        same_meaning(published.result, render(value), left_out, published.file)
        written[published.method] += 1
    assert set(written) == set(ASKED)
    assert written.total() >= 70


def test_every_published_block_makes_its_hash() -> None:
    """Goal: headers of each fork, frontier to Osaka. Method: recompute the hash of every published block."""
    forks: set[tuple[bool, ...]] = set()
    for published in pairs():
        if published.method.startswith("eth_getBlockBy") and published.result:
            header = schemas.header(published.result)
            proofs.verify_header(header)
            optional = header.base_fee_per_gas_wei, header.withdrawals_root, header.blob_gas_used, header.requests_hash
            forks.add(tuple(field is not None for field in optional))
    assert len(forks) == 5


def test_every_provable_answer_is_proven_and_no_flipped_bit_passes() -> None:
    """Goal: must show 9: each value changed is caught by schema or by proof, and what is true passes.

    Method: as `python -m tests.rpc.conformance` counts it; what is unread may be no member that our values have.
    """
    kinds: Counter[str] = Counter()
    for provable in provables():
        provable.verify(provable.read(provable.document))
        kinds[provable.kind] += 1
        for catcher, path in caught(provable, FLIPS_PER_VALUE):
            assert catcher != "votes", f"{provable.kind} {path}"
            if catcher == "unread":
                assert {str(part) for part in path} & UNREAD[provable.kind], f"{provable.kind} {path}"
    assert kinds == {"header": 8, "transactions": 2, "block receipts": 2, "account proof": 2}


def test_our_bytes_are_those_of_the_raw_answers() -> None:
    """Goal: RLP as another implementation writes it. Method: published raw headers and raw receipts of one block."""
    raw = {(each.method, each.params[0]): each.result for each in pairs() if each.method.startswith("debug_getRaw")}
    genesis = next(
        schemas.header(each.result)
        for each in pairs()
        if each.method == "eth_getBlockByNumber" and each.result and each.result["number"] == "0x0"
    )
    assert keccak(data(raw["debug_getRawHeader", "0x0"])) == proofs.header_hash(genesis)
    third = decode(data(raw["debug_getRawHeader", "0x3"]))
    receipts = [data(each) for each in raw["debug_getRawReceipts", "0x3"]]
    assert root_of({encode(integer(place)): each for place, each in enumerate(receipts)}) == third[5]

"""Whole blocks of our own making, signed and consistent, for tests to forge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, cast

import attrs
from attrs import evolve, frozen
from coincurve import PrivateKey
from eth_utils.crypto import keccak

from rpc import proofs
from rpc.block_transactions import LEGACY, Access, Authorization, SignedTransaction
from rpc.bloom import logs_bloom
from rpc.transaction_bytes import contract_address, signing_digest, transaction_hash
from rpc.values import Header, Log, Receipt
from tayho.custody.derivation import address_of
from tayho.custody.recovery import recovered

CHAIN_ID = 31337
BASE_FEE_WEI = 7
NUMBER = 12


@frozen
class Block:
    """A header with all that its roots commit to."""

    header: Header
    transactions: tuple[SignedTransaction, ...]
    receipts: tuple[Receipt, ...]


def block(random: Random, count: int) -> Block:
    """A block of so many transactions of all types: creations, failures, events, and receipts of before Byzantium."""
    transactions = [_signed(random, place) for place in range(count)]
    receipts: list[Receipt] = []
    for transaction in transactions:
        receipts.append(_receipt(random, transaction, receipts))
    header = Header(
        number=NUMBER,
        hash=bytes(32),
        parent_hash=random.randbytes(32),
        timestamp_seconds=random.getrandbits(32),
        base_fee_per_gas_wei=BASE_FEE_WEI,
        gas_limit=10**9,
        gas_used=receipts[-1].cumulative_gas_used if receipts else 0,
        receipts_root=proofs.receipts_root(receipts),
        state_root=random.randbytes(32),
        transactions_root=proofs.transactions_root(transactions),
        logs_bloom=logs_bloom(log for receipt in receipts for log in receipt.logs),
        miner=random.randbytes(20),
        uncles_hash=random.randbytes(32),
        difficulty=0,
        extra_data=random.randbytes(random.randrange(33)),
        mix_hash=random.randbytes(32),
        nonce=bytes(8),
        withdrawals_root=random.randbytes(32),
        blob_gas_used=0,
        excess_blob_gas=random.getrandbits(20),
        parent_beacon_block_root=random.randbytes(32),
        requests_hash=random.randbytes(32),
    )
    return named(Block(header, tuple(transactions), tuple(receipts)))


def named(made: Block) -> Block:
    """The block under the hash that its header makes."""
    block_hash = proofs.header_hash(made.header)
    return Block(
        evolve(made.header, hash=block_hash),
        tuple(evolve(each, block_hash=block_hash) for each in made.transactions),
        tuple(
            evolve(each, block_hash=block_hash, logs=tuple(evolve(log, block_hash=block_hash) for log in each.logs))
            for each in made.receipts
        ),
    )


def verify(made: Block) -> None:
    """All that can be proven of a block. Raises ProofRefuted or Unprovable."""
    proofs.verify_header(made.header)
    proofs.verify_receipts(made.header, made.receipts)
    proofs.verify_transactions(made.header, made.transactions)
    for receipt, transaction in zip(made.receipts, made.transactions, strict=True):
        proofs.verify_receipt(made.header, receipt, transaction, recovered)


def forgeries(value: object) -> Iterator[tuple[str, Any]]:
    """The value with one field of it, however deep, told otherwise; and the path of that field."""
    for field in attrs.fields(cast("Any", type(value))):
        for path, other in _otherwise(getattr(value, field.name)):
            yield f"{field.name}{path}", evolve(cast("Any", value), **{field.name: other})


def _otherwise(told: object) -> Iterator[tuple[str, object]]:
    if isinstance(told, bool):
        yield "", not told
    elif isinstance(told, int):
        yield "", told ^ 1
    elif isinstance(told, bytes):
        yield "", bytes([told[0] ^ 1]) + told[1:] if told else b"\x01"
        yield " cut", told[:-1] if told else b"\x00"
    elif told is None:
        yield "", bytes(20)
    elif isinstance(told, tuple):
        yield from _items_otherwise(cast("Sequence[object]", told))


def _items_otherwise(told: Sequence[object]) -> Iterator[tuple[str, object]]:
    for place, item in enumerate(told):
        others = forgeries(item) if attrs.has(type(item)) else _otherwise(item)
        for path, other in others:
            yield f"[{place}] {path}", (*told[:place], other, *told[place + 1 :])
        yield f" without {place}", (*told[:place], *told[place + 1 :])
        yield f" {place} twice", (*told[:place], item, *told[place:])


def _signed(random: Random, place: int) -> SignedTransaction:
    kind = random.randrange(5)
    key = PrivateKey(keccak(b"key" + bytes([random.randrange(4)])))
    creates = kind <= 2 and random.random() < 0.2
    unsigned = SignedTransaction(
        hash=bytes(32),
        type=kind,
        index=place,
        block_hash=bytes(32),
        sender=address_of(key.public_key).value,
        to=None if creates else random.randbytes(20),
        nonce=random.choice([0, 1, 127, 128, 2**40]),
        value_wei=random.choice([0, 1, 10**18, 2**256 - 1]),
        gas_limit=21000 + random.getrandbits(16),
        input=random.randbytes(random.choice([0, 1, 4, 100])),
        chain_id=CHAIN_ID if kind or random.random() < 0.5 else None,
        gas_price_wei=BASE_FEE_WEI + random.getrandbits(40) if kind <= 1 else None,
        max_fee_per_gas_wei=BASE_FEE_WEI + random.getrandbits(8) if kind >= 2 else None,
        max_priority_fee_per_gas_wei=random.getrandbits(8) if kind >= 2 else None,
        max_fee_per_blob_gas_wei=random.getrandbits(30) if kind == 3 else None,
        access_list=_accesses(random) if kind else (),
        blob_hashes=tuple(random.randbytes(32) for _ in range(random.randrange(1, 4))) if kind == 3 else (),
        authorizations=_authorizations(random) if kind == 4 else (),
        v=27 if kind == LEGACY else 0,
        r=0,
        s=0,
    )
    if kind == LEGACY and unsigned.chain_id is not None:
        unsigned = evolve(unsigned, v=35 + 2 * CHAIN_ID)
    signature = key.sign_recoverable(signing_digest(unsigned), hasher=None)
    r, s = (int.from_bytes(signature[at : at + 32], "big") for at in (0, 32))
    signed = evolve(unsigned, v=unsigned.v + signature[64], r=r, s=s)
    return evolve(signed, hash=transaction_hash(signed))


def _accesses(random: Random) -> tuple[Access, ...]:
    return tuple(
        Access(random.randbytes(20), tuple(random.randbytes(32) for _ in range(random.randrange(3))))
        for _ in range(random.randrange(3))
    )


def _authorizations(random: Random) -> tuple[Authorization, ...]:
    return tuple(
        Authorization(CHAIN_ID, random.randbytes(20), random.getrandbits(10), random.getrandbits(1), 5, 6)
        for _ in range(random.randrange(1, 3))
    )


def _receipt(random: Random, transaction: SignedTransaction, before: Sequence[Receipt]) -> Receipt:
    old = random.random() < 0.1
    gas_used = random.randrange(21000, 100_000)
    first_log = sum(len(receipt.logs) for receipt in before)
    logs = tuple(_log(random, transaction, first_log + at) for at in range(random.choice([0, 0, 1, 3])))
    tip = transaction.max_priority_fee_per_gas_wei or 0
    price_wei = transaction.gas_price_wei or min(transaction.max_fee_per_gas_wei or 0, BASE_FEE_WEI + tip)
    return Receipt(
        transaction_hash=transaction.hash,
        transaction_index=transaction.index,
        block_hash=bytes(32),
        block_number=NUMBER,
        status=None if old else random.getrandbits(1),
        post_state_root=random.randbytes(32) if old else None,
        sender=transaction.sender,
        to=transaction.to,
        contract_address=contract_address(transaction.sender, transaction.nonce) if transaction.to is None else None,
        gas_used=gas_used,
        cumulative_gas_used=gas_used + (before[-1].cumulative_gas_used if before else 0),
        effective_gas_price_wei=price_wei,
        logs=logs,
        type=transaction.type,
        logs_bloom=logs_bloom(logs) if random.random() < 0.8 else None,
    )


def _log(random: Random, transaction: SignedTransaction, log_index: int) -> Log:
    return Log(
        address=random.randbytes(20),
        topics=tuple(random.randbytes(32) for _ in range(random.randrange(5))),
        data=random.randbytes(random.choice([0, 1, 32, 100])),
        log_index=log_index,
        removed=False,
        transaction_hash=transaction.hash,
        transaction_index=transaction.index,
        block_hash=bytes(32),
        block_number=NUMBER,
    )

"""The limit: raw transactions that were signed before, in batches of a hundred, each account's in nonce order."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
import httpx2
import rlp
import trio
from coincurve import PrivateKey
from eth_utils.crypto import keccak

from tayho.kernel.address import Address
from tayho.protocol import abi, artifacts

BATCH = 100
TIP_WEI = 10**9


async def main() -> None:
    settings = json.loads(await _line())
    batches = [_batches(settings, key) for key in settings["keys"]]
    click.echo("ready")
    await _line()
    click.echo(json.dumps(await _sent(settings, batches)))


async def _sent(settings: Mapping[str, Any], batches: Sequence[Sequence[Sequence[str]]]) -> Mapping[str, float]:
    sent = 0
    began = time.perf_counter()
    async with httpx2.AsyncClient(timeout=60) as client, trio.open_nursery() as accounts:

        async def send(own: Sequence[Sequence[str]]) -> None:
            nonlocal sent
            for batch in own:
                questions = [
                    {"jsonrpc": "2.0", "id": number, "method": "eth_sendRawTransaction", "params": [raw]}
                    for number, raw in enumerate(batch)
                ]
                answers = (await client.post(settings["url"], json=questions)).json()
                assert all("result" in answer for answer in answers), answers[0]
                sent += len(batch)

        for own in batches:
            accounts.start_soon(send, own)
    return {"sent": sent, "seconds": time.perf_counter() - began}


def _batches(settings: Mapping[str, Any], key: str) -> Sequence[Sequence[str]]:
    """An account's share, signed."""
    share = max(settings["presigned"] // len(settings["keys"]), 1)
    signer = PrivateKey(bytes.fromhex(key[2:]))
    signed = [_signed(settings, signer, nonce) for nonce in range(share)]
    return [signed[first : first + BATCH] for first in range(0, share, BATCH)]


def _signed(settings: Mapping[str, Any], signer: PrivateKey, nonce: int) -> str:
    """An EIP-1559 transaction that records; the event id does not matter to the node."""
    event = nonce.to_bytes(12, "big") + signer.public_key.format()[-20:]
    fields: list[Any] = [
        *map(_minimal, (settings["chain_id"], nonce, TIP_WEI, settings["fee_wei"], settings["gas"])),
        Address.parse(settings["contract"]).value,
        b"",
        abi.encode_call(artifacts.load("Counter"), "record", [event]),
        [],
    ]
    signature = signer.sign_recoverable(keccak(b"\x02" + rlp.encode(fields, infer_serializer=False)), hasher=None)
    fields += [_minimal(signature[64]), signature[:32].lstrip(b"\0"), signature[32:64].lstrip(b"\0")]
    return f"0x02{rlp.encode(fields, infer_serializer=False).hex()}"


def _minimal(integer: int) -> bytes:
    return integer.to_bytes((integer.bit_length() + 7) // 8, "big")


async def _line() -> str:
    return await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)


if __name__ == "__main__":
    trio.run(main)

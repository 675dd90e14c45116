"""Two replicas of an oracle, as processes, whose source goes bad and well again (must-show 8)."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest
import trio
from coincurve import PrivateKey

from rpc import methods
from rpc.quantities import hash32
from rpc.reads import Call
from tayho.kernel.address import Address
from tayho.local.development import DEPLOYER, PUBLIC_ACCOUNTS, deploy
from tayho.protocol import abi
from tests.crash.conftest import crashing  # noqa: F401 - a fixture
from tests.crash.world import World
from tests.protocol.reference import PROTOCOL
from tests.protocol.sources.answering import Signer, answering, http_answer
from tests.services.plug_in import of_this_tree
from tests.waiting import until

pytestmark = pytest.mark.services

SIGNER = Signer(PrivateKey(b"\x21" * 32))
EPOCH_SECONDS = 604_800


def markets(url: str) -> str:
    source = {
        "url": url,
        "value": "/rate",
        "timestamp": "/at",
        "decimals": 18,
        "signer": str(SIGNER.address),
        "subject": "/market",
        "subject_is": "ETH-USD",
    }
    bounds = {"minimum": "-0.01", "maximum": "0.01", "age_seconds_max": 3_600, "epoch_seconds": EPOCH_SECONDS}
    return json.dumps({"ETH-USD": {"funding": {"source": source, **bounds}}})


async def _protocol(world: World) -> Address:
    """The protocol, its funding role granted to both signers."""
    protocol = await deploy(world.node, abi.encode_deployment(PROTOCOL))
    for address, _ in PUBLIC_ACCOUNTS:
        data = abi.encode_call(PROTOCOL, "grantRole", [b"funding-oracle".ljust(32, b"\0"), Address.parse(address)])
        grant = {"from": str(DEPLOYER), "to": str(protocol), "data": f"0x{data.hex()}"}
        await world.node.ask(Call("eth_sendTransaction", (grant,), hash32, is_write=True))
    return protocol


async def test_no_bad_source_makes_a_transaction_or_an_unhealthy_role(
    crashing: World,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Goal: must-show 8, end to end. Method: two replicas of the funding oracle and a signed source that is silent,
    then absurd, forged, failing: each becomes a finding, no job is there, both replicas are ready; then it tells a
    rate: one job, one transaction, that rate on the chain."""
    home = tmp_path / "tree"
    home.mkdir()
    async with answering() as source:
        source.says(b"")
        protocol = await _protocol(crashing)
        variables = {
            "PYTHONPATH": of_this_tree(home),
            "PROTOCOL_ADDRESS": str(protocol),
            "PROTOCOL_MARKETS": markets(source.url),
            "SCAN_SECONDS": "1",
        }
        replicas = await crashing.replicas.start("funding-oracle", 2, variables)
        head = await crashing.node.ask(methods.block_by_number("latest"))
        assert head is not None
        told = {"market": "ETH-USD", "at": head.timestamp_seconds}

        async def found(name: str) -> None:
            async def is_there() -> bool:
                crashing.replicas.check()
                async with crashing.database.connection() as connection:
                    rows = await connection.fetch("SELECT DISTINCT subject, name FROM discovery.findings")
                return ("ETH-USD/funding", name) in {(row["subject"], row["name"]) for row in rows}

            await until(is_there, seconds=60, what=f"the finding {name!r}")

        await found("silent")
        source.answers(SIGNER.envelope(json.dumps({**told, "rate": "0.5"})))
        await found("absurd")
        source.answers(Signer(PrivateKey(b"\x22" * 32)).envelope(json.dumps({**told, "rate": "0.001"})))
        await found("forged")
        source.says(http_answer(b"{}", status="500 Oops"))
        await found("unusable")
        async with crashing.database.connection() as connection:
            assert await connection.fetchval("SELECT count(*) FROM coordination.jobs") == 0
        for replica in replicas:
            assert await trio.to_thread.run_sync(_is_ready, replica.log.read_text())
        source.answers(SIGNER.envelope(json.dumps({**told, "rate": "0.001"})))
        ((key, state, result),) = await crashing.await_found("funding.post", 1)
        epoch = head.timestamp_seconds // EPOCH_SECONDS
        assert key.endswith(f"/{b'ETH-USD'.ljust(32, bytes(1)).hex()}/{epoch}")
        assert (state, result["result"]) == ("completed", {"value": str(10**15)})


def _is_ready(log: str) -> bool:
    found = re.search(r'"http_listening".*?"bind": "([^"]+)"', log)
    assert found is not None
    with urllib.request.urlopen(f"http://{found[1]}/readyz", timeout=5) as answer:
        return answer.status == 200

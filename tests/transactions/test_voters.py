"""At start: who may vote on the chain, and who need not be there yet (RPC-6)."""

from __future__ import annotations

from typing import cast

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from rpc.errors import ChainMismatch, EndpointFault, RpcError, WrongChain
from tayho.config import Settings
from tayho.voters import voter_problems
from tests.config.environments import LIVE, accepted
from tests.rpc.voting import Voter, away, saying

HERE = ("http://127.0.0.1:1", "http://localhost:2", "http://127.1:3")
THREE = ("http://203.0.113.1", "http://203.0.113.2", "http://203.0.113.3")
ELSEWHERE = WrongChain("http://203.0.113.3", ChainMismatch(1, 5), "eth_chainId")


def settings(environment: str) -> Settings:
    return evolve(cast("Settings", accepted(LIVE, "payouts")), environment=environment)


async def problems(
    environment: str, urls: tuple[str, ...], errors: tuple[RpcError | None, ...]
) -> tuple[list[str], list[str]]:
    """What is refused and what is only said."""
    voters = [Voter(url, saying(error or "0x1")) for url, error in zip(urls, errors, strict=True)]
    with capture_logs() as lines:
        found = await voter_problems(settings(environment), urls, voters)
    return found, [line["detail"] for line in lines]


FINE = (None, None, None)


async def test_one_host_several_times_is_refused_on_a_live_chain_alone() -> None:
    """Goal: RPC-6 at start. Method: three spellings of this machine, live and not."""
    refused, _ = await problems("live", HERE, FINE)
    assert len(refused) == 3
    assert all("are one host" in line for line in refused)
    refused, said = await problems("staging", HERE, FINE)
    assert (refused, len(said)) == ([], 3)
    assert await problems("live", THREE, FINE) == ([], [])


async def test_a_minority_may_be_away_at_start_and_a_majority_may_not() -> None:
    """Goal: one endpoint may be down without effect. Method: one of three away, then two; one of one; one of two."""
    gone: EndpointFault = away("http://203.0.113.3")
    refused, said = await problems("live", THREE, (None, None, gone))
    assert (refused, said) == ([], [str(gone)])
    refused, _ = await problems("live", THREE, (None, gone, gone))
    assert refused == [str(gone)] * 2
    assert (await problems("staging", THREE[:1], (gone,)))[0] == [str(gone)]
    assert (await problems("staging", THREE[:2], (None, gone)))[0] == [str(gone)]


async def test_a_voter_of_another_chain_is_refused_even_alone() -> None:
    """Goal: a wrong network is a wrong URL, not an outage. Method: one of three on chain 5."""
    assert (await problems("live", THREE, (None, None, ELSEWHERE)))[0] == [str(ELSEWHERE)]


@pytest.mark.parametrize("environment", ["live", "staging"])
async def test_one_endpoint_written_twice_is_refused_everywhere(environment: str) -> None:
    """Goal: nobody votes twice. Method: the same host and port under two keys."""
    refused, _ = await problems(environment, (THREE[0], THREE[1], THREE[0]), FINE)
    assert f"{THREE[0]} stands twice in RPC_READ_URLS: one endpoint has one vote" in refused

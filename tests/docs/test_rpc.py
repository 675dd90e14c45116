"""docs/rpc.md says what the code does: its example runs, its metrics and figures are those of the code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from rpc.circuit import CircuitRules
from rpc.health import STICKINESS
from rpc.hedging import HedgeRules
from rpc.method_traits import METHOD_CLASSES
from tayho.observability import Metrics
from tests.docs.markdown import blocks, names_in, table_of, text_of
from tests.rpc import examples
from tests.rpc import faulty_server as faulty
from tests.rpc.faulty_server import CHAIN_ID, faulty_server

DOCUMENT = "docs/rpc.md"


async def test_the_example_reads_a_balance() -> None:
    """Goal: the example can be copied. Method: run it on a server that answers, and on one that refuses."""
    defined: dict[str, object] = {}
    (block,) = blocks(text_of(DOCUMENT), "python")
    exec(compile(block, DOCUMENT, "exec"), defined)  # noqa: S102 - our own document
    balance_of = cast("Callable[[list[str], int, bytes], Awaitable[int | None]]", defined["balance_of"])
    async with faulty_server() as server:
        results = {"eth_getBlockByNumber": examples.block(), "eth_getBalance": "0x7", "eth_blockNumber": "0x10"}
        server.otherwise = faulty.answer(lambda call: results[call["method"]])
        assert await balance_of([server.url], CHAIN_ID, b"\x01" * 20) == 7
        server.otherwise = faulty.refuse(-32602, "invalid params")
        assert await balance_of([server.url], CHAIN_ID, b"\x01" * 20) is None


def test_every_metric_of_reads_is_told() -> None:
    """Goal: who meets a metric finds its meaning. Method: compare the table with what a process shows."""
    told = {name for cell, _ in table_of(text_of(DOCUMENT), "metric") for name in names_in(cell)}
    shown = {
        line.split()[2] for line in Metrics().render().decode().splitlines() if line.startswith("# TYPE tayho_rpc")
    }
    assert told == shown


def test_the_figures_are_those_of_the_code() -> None:
    """Goal: no figure on the page grows old. Method: the ones it names, against the defaults."""
    hedges, circuits = HedgeRules(), CircuitRules(1)
    assert (hedges.seconds_min, hedges.seconds_max, hedges.extra_share, hedges.burst_max) == (0.02, 2.0, 0.1, 20)
    assert (circuits.samples_min, circuits.window_seconds, circuits.fault_share) == (4, 30, 0.5)
    assert STICKINESS == 1.25
    assert all(f"`{work}`" in text_of(DOCUMENT) for work in METHOD_CLASSES)

"""The fault matrix, our column (RPC-13): no fault, wherever it is and whichever way is asked, makes a wrong value.

The peers' columns are played by `python -m tests.rpc.matrix`, and published in docs/rpc-fault-matrix.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

from tests.rpc.front.front import nodes
from tests.rpc.front.ground import Ground, ground
from tests.rpc.matrix import ours
from tests.rpc.matrix.cells import Outcome, all_faults, cells_of, is_green
from tests.rpc.matrix.fault import Must
from tests.rpc.matrix.playing import Stage, play_all
from tests.rpc.matrix.questions import truths
from tests.rpc.matrix.report import red_cells

pytestmark = pytest.mark.services

# Their names do not depend on the chains.
FAULTS = [fault.name for fault in all_faults(Ground("", "", b"", 4, 20, 40))]
SEATS = 4


@pytest.fixture(scope="module")
def base() -> Iterator[Ground]:
    with ground() as running:
        yield running


@pytest.fixture(scope="module")
def truth(base: Ground) -> dict[str, object]:
    return trio.run(truths, base)


@pytest.mark.parametrize("name", FAULTS)
async def test_no_cell_of_the_matrix_is_red(name: str, base: Ground, truth: dict[str, object]) -> None:
    """Goal: a fault costs no right answer while another endpoint is honest, and never makes a wrong one.

    Method: the fault at the first, the second, and all endpoints; a read, a hedged read, a vote, finality.
    """
    cells = cells_of([fault for fault in all_faults(base) if fault.name == name])
    async with nodes(base) as both:
        played = await play_all(cells, ours.seats(SEATS), Stage(base, both, truth))
    red = list(red_cells({"tayho": played}))
    assert not red, "\n".join(red)


def test_every_fault_has_its_own_name() -> None:
    """Goal: no fault hides another. Method: the names of the matrix are distinct."""
    assert len(set(FAULTS)) == len(FAULTS)


@pytest.mark.parametrize("must", Must)
def test_what_is_red_is_red(must: Must) -> None:
    """Goal: the matrix cannot pass by its own mistake. Method: the outcomes that never may be, and those that may."""
    for kind in ("raw", "late", "crashed"):
        assert not is_green(must, Outcome(kind), 1)
    assert not is_green(must, Outcome("value", 2), 1)
    assert is_green(must, Outcome("value", 1), 1)
    assert is_green(must, Outcome("value", None), 1) == (must is Must.NOT_BE_WRONG_OR_NULL)
    assert is_green(must, Outcome("error"), 1) == (must is not Must.BE_RIGHT)

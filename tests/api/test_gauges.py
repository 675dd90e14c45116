"""Gauges: each source alone, fresh or absent and never stale."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from uuid import UUID

import pytest
import trio
from attrs import evolve, frozen
from prometheus_client.parser import text_string_to_metric_families

from storage.errors import StoreUnavailable
from tayho.api.gauges import Gauges, Lanes
from tayho.coordination.types import Backlog, RoleAges
from tayho.kernel.address import Address
from tayho.observability import Metrics
from tayho.transactions.module import LaneLine, PoolLook
from tayho.transactions.types import Halt, LaneStatus

SIGNER = Address(b"\x01" * 20)
HALT = Halt(UUID(int=1), "chain_reset", {}, "one", datetime.now(UTC))
LANE = LaneStatus(SIGNER, "open", None, 41, 3)


@frozen
class Pool:
    pool_size: int = 10
    size: int = 4
    idle: int = 1


def answering(value):
    async def answer():
        await trio.lowlevel.checkpoint()
        return value

    return answer


async def away():
    await trio.lowlevel.checkpoint()
    raise StoreUnavailable("gone")


# Shown by others than the gauges' sources.
OF_THE_PROCESS = ("tayho_build", "tayho_ready", "tayho_loop_late")
AGES = answering([RoleAges("automation", 4.5, 0.5)])


def gauges() -> Gauges:
    lanes = Lanes(answering([LANE]), answering(3), answering([HALT]))
    return Gauges(Metrics(), Pool(), lambda: True, answering(Backlog(7, 2, 1.5)), AGES, list, lanes)


def shown(gauges: Gauges) -> dict[str, float]:
    families = text_string_to_metric_families(gauges.metrics.render().decode())
    return {
        f"{sample.name}{''.join(f'/{value}' for value in sample.labels.values())}": sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("tayho_") and not sample.name.startswith(OF_THE_PROCESS)
    }


async def test_all_sources_are_shown():
    """Goal: every gauge has its source. Method: sources that answer."""
    taken = gauges()
    await taken.refresh()
    assert shown(taken) == {
        "tayho_handlers_running": 0,
        "tayho_outbox_rows": 7,
        "tayho_outbox_unpublished": 2,
        "tayho_outbox_oldest_due_seconds": 1.5,
        "tayho_queue_oldest_seconds/automation": 4.5,
        "tayho_processing_oldest_seconds/automation": 0.5,
        f"tayho_lane_state/{SIGNER}/open": 1,
        f"tayho_lane_in_flight/{SIGNER}": 3,
        f"tayho_lane_next_nonce/{SIGNER}": 41,
        f"tayho_lane_open/{SIGNER}": 1,
        "tayho_lineages_open": 3,
        "tayho_halts_open": 1,
        "tayho_database_pool_size": 10,
        "tayho_database_pool_open": 4,
        "tayho_database_pool_idle": 1,
        "tayho_draining": 1,
        "tayho_refresh_failed/outbox": 0,
        "tayho_refresh_failed/ages": 0,
        "tayho_refresh_failed/lanes": 0,
    }


@pytest.mark.parametrize("state", ["blocked", "draining", "underfunded", "retired"])
async def test_a_held_lane_is_not_open(state):
    """Goal: an alert can be written on it. Method: a lane in each state that takes no work."""
    taken = gauges()
    held = evolve(taken, lanes=Lanes(answering([evolve(LANE, state=state)]), answering(0), answering([])))
    await held.refresh()
    assert shown(held)[f"tayho_lane_open/{SIGNER}"] == 0


async def test_a_source_that_is_away_leaves_no_old_value():
    """Goal: a stale number never passes for a present one. Method: refresh, then again with one source away."""
    taken = gauges()
    await taken.refresh()
    for broken in (
        evolve(taken, lanes=Lanes(away, answering(3), answering([]))),
        evolve(taken, lanes=Lanes(answering([LANE]), away, answering([]))),
    ):
        await broken.refresh()
        found = shown(taken)
        assert not [name for name in found if name.startswith("tayho_lane_")]
        assert math.isnan(found["tayho_lineages_open"])
        assert (found["tayho_refresh_failed/lanes"], found["tayho_refresh_failed/outbox"]) == (1, 0)
        assert found["tayho_outbox_rows"] == 7
    await evolve(taken, backlog=away).refresh()
    found = shown(taken)
    assert math.isnan(found["tayho_outbox_oldest_due_seconds"])
    assert (found["tayho_refresh_failed/lanes"], found["tayho_refresh_failed/outbox"]) == (0, 1)
    assert found[f"tayho_lane_in_flight/{SIGNER}"] == 3


async def test_the_pool_is_shown_and_forgotten_with_its_lanes():
    """Goal: the deeper look at the pool keeps the same promise. Method: a pool that answers, then one that is away."""
    line = LaneLine(
        role="automation",
        signer=SIGNER,
        state="open",
        state_reason=None,
        next_nonce=41,
        latest_nonce=38,
        pending_nonce=40,
        in_flight=3,
        held=1,
        oldest_open_seconds=12.5,
        balance_wei=5,
        is_delegated=False,
        world=1,
        observed_at=None,
    )
    taken = gauges()
    look = PoolLook((line,), {("signed", "limits"): 1})
    await evolve(taken, lanes=Lanes(answering([LANE]), answering(3), answering([]), pool=answering(look))).refresh()
    found = shown(taken)
    assert found["tayho_lineages/limits/signed"] == 1
    assert (found[f"tayho_lane_latest_nonce/{SIGNER}"], found[f"tayho_lane_balance_wei/{SIGNER}"]) == (38, 5)
    assert found[f"tayho_lane_oldest_open_seconds/{SIGNER}"] == 12.5
    await evolve(taken, lanes=Lanes(answering([LANE]), answering(3), answering([]), pool=away)).refresh()
    assert not [name for name in shown(taken) if name.startswith(("tayho_lane_", "tayho_lineages/"))]


async def test_ages_that_cannot_be_read_are_not_shown():
    """Goal: the same for the ages of jobs, alone. Method: refresh, then again with that source away."""
    taken = gauges()
    await taken.refresh()
    await evolve(taken, ages=away).refresh()
    found = shown(taken)
    assert not [name for name in found if "oldest_seconds" in name]
    assert (found["tayho_refresh_failed/ages"], found["tayho_refresh_failed/outbox"]) == (1, 0)


async def test_a_question_cut_off_by_the_deadline_leaves_no_old_value_either(autojump_clock):
    """Goal: the same for a database that hangs. Method: a source that never answers, cancelled from outside."""
    taken = gauges()
    await taken.refresh()
    with trio.move_on_after(1):
        await evolve(taken, backlog=trio.sleep_forever).refresh()
    assert math.isnan(shown(taken)["tayho_outbox_rows"])
    assert shown(taken)["tayho_refresh_failed/outbox"] == 1


async def test_a_process_without_signers_shows_no_lanes():
    """Goal: no gauge of what is not there. Method: no lanes."""
    taken = evolve(gauges(), lanes=None)
    await taken.refresh()
    assert not [name for name in shown(taken) if "lane" in name]

"""What is shown of transactions: counts and times of this process, and the pool as PostgreSQL has it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from attrs import fields_dict, frozen
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tayho.kernel.address import Address

# From a block of a fast chain to an hour in a stuck pool.
_SECONDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


@frozen
class LaneGauges:
    """One lane's numbers; None where no node was asked yet, or nothing is open."""

    latest_nonce: int | None
    pending_nonce: int | None
    balance_wei: int | None
    held: int
    oldest_open_seconds: float | None


_LANE_TEXTS = {
    "latest_nonce": "Transactions of the signer that are in blocks, as a majority of the nodes last showed",
    "pending_nonce": "The same with those in the nodes' pools",
    "balance_wei": "What the signer owns, as a majority of the nodes last showed",
    "held": "Open lineages of the lane that do not move by themselves",
    "oldest_open_seconds": "Since when the oldest lineage that no block shows is open; 0 while there is none",
}

_FROM_ZERO = {
    "answered": ("accepted",),
    "ended": ("mined", "reverted", "superseded"),
    "replaced": ("stuck", "bump_requested", "cancel_requested"),
    "look_failed": ("NoQuorum",),
    "contested": ("contested", "refuted"),
    "evidence_dropped": ("",),
}


class TransactionInstruments:
    """The instruments of the transaction engine, on the registry of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._happened = Counter(
            "tayho_transactions",
            "What happened to transactions in this process: answered (by the class of the node's answer), held, "
            "released, ended, lane_closed, replaced, look_failed, contested, evidence_dropped",
            ["what", "label"],
            registry=registry,
        )
        self._seconds = Histogram(
            "tayho_transaction_seconds",
            "How long after its nonce was taken a transaction was first out (broadcast) and final",
            ["stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._lineages = Gauge(
            "tayho_lineages",
            "Open lineages of the pool by state and by what holds them; the hold is empty where nothing does",
            ["state", "hold"],
            registry=registry,
        )
        self._lanes = {
            name: Gauge(f"tayho_lane_{name}", _LANE_TEXTS[name], ["signer"], registry=registry)
            for name in fields_dict(LaneGauges)
        }

    def begin(self) -> None:
        """Show as 0 what alerts count the increase of."""
        for what, labels in _FROM_ZERO.items():
            for label in labels:
                self._happened.labels(what=what, label=label)

    def observe(self, what: Enum, label: str, count: int) -> None:
        """Count something that the engine saw happen."""
        if count:
            self._happened.labels(what=what.value, label=label).inc(count)

    def observe_seconds(self, stage: Enum, seconds: float) -> None:
        """Note how long something took; a clock that was set back counts as no time."""
        self._seconds.labels(stage=stage.value).observe(max(seconds, 0))

    def show(self, lanes: Mapping[Address, LaneGauges], lineages: Mapping[tuple[str, str], int]) -> None:
        """The pool as it is now: what is not named any more is not shown any more."""
        self.forget()
        for signer, lane in lanes.items():
            for name, gauge in self._lanes.items():
                number = getattr(lane, name)
                if number is None and name == "oldest_open_seconds":
                    number = 0
                if number is not None:
                    gauge.labels(signer=signer.checksummed).set(number)
        for (state, hold), count in lineages.items():
            self._lineages.labels(state=state, hold=hold).set(count)

    def forget(self) -> None:
        """The pool cannot be read: no old number may pass for a present one."""
        for gauge in (self._lineages, *self._lanes.values()):
            gauge.clear()

"""The demo's markets, and the files that its oracles and attesters read their facts from."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from tayho.kernel.json_document import Json

# The one that the users trade in.
TRADED = "ETH-USD"
# The one that ends, and the one that somebody drains.
SETTLED = "RAIN-IN-MAY"
DRAINED = "THIN-USD"

FACT_EPOCH_SECONDS = 10
REVENUE_EPOCH_SECONDS = 5
# The files are written once.
AGE_SECONDS_MAX = 3_600


def write_facts(folder: Path) -> dict[str, Json]:
    """Write a file for each fact; what PROTOCOL_MARKETS is told of them."""
    return {
        TRADED: {
            "funding": _epoch_feed(folder, TRADED, "funding", "0.0001", minimum="-0.01", maximum="0.01"),
            "depth": _epoch_feed(folder, TRADED, "depth", "250000", minimum="0", maximum="1000000000"),
        },
        SETTLED: {"resolution": _feed(folder, SETTLED, "resolution", "1", minimum="0", maximum="1")},
        DRAINED: {
            # Half of the floor: the guardian must pause it, once an epoch at most. One epoch is longer than any demo.
            "guard": {
                **_feed(folder, DRAINED, "reserves", "500", minimum="0", maximum="1000000000"),
                "epoch_seconds": 24 * 60 * 60,
                "floor": "1000",
            }
        },
    }


def _epoch_feed(folder: Path, market: str, fact: str, value: str, *, minimum: str, maximum: str) -> Mapping[str, Json]:
    feed = _feed(folder, market, fact, value, minimum=minimum, maximum=maximum)
    return {**feed, "epoch_seconds": FACT_EPOCH_SECONDS}


def _feed(folder: Path, market: str, fact: str, value: str, *, minimum: str, maximum: str) -> Mapping[str, Json]:
    path = folder / f"{market}-{fact}.json"
    observed = {"market": market, "value": value, "observed_at": int(time.time())}
    path.write_text(json.dumps(observed), encoding="utf-8")
    source: Mapping[str, Json] = {
        "file": str(path.resolve()),
        "value": "/value",
        "timestamp": "/observed_at",
        "subject": "/market",
        "subject_is": market,
        "decimals": 6,
    }
    return {"source": source, "minimum": minimum, "maximum": maximum, "age_seconds_max": AGE_SECONDS_MAX}

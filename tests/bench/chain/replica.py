"""`tayho run`, as it is, with its requests to endpoints counted; at its end it leaves what it took in a file."""

from __future__ import annotations

import atexit
import json
import os
import time
from pathlib import Path
from typing import Any

from rpc.transport import HttpTransport
from tayho.cli.main import main
from tests.bench.delivery.profile_table import new_profile, profile_table

REPORT = "TAYHO_BENCH_REPORT"
PROFILE = "TAYHO_BENCH_PROFILE"


def count_requests() -> None:
    """Count from now on, below every endpoint and pool: a batch is one request."""
    report = Path(os.environ.pop(REPORT))
    profile = new_profile() if os.environ.pop(PROFILE, "") else None
    post = HttpTransport.post
    requests = 0

    async def counted(transport: HttpTransport, *arguments: Any) -> Any:
        nonlocal requests
        requests += 1
        return await post(transport, *arguments)

    HttpTransport.post = counted

    def leave() -> None:
        if profile is not None:
            profile.disable()
        table = None if profile is None else profile_table(profile)
        document = {"rpc_round_trips": requests, "cpu_seconds": time.process_time(), "profile": table}
        report.write_text(json.dumps(document), encoding="utf-8")

    atexit.register(leave)
    if profile is not None:
        profile.enable()


if __name__ == "__main__":
    count_requests()
    main()

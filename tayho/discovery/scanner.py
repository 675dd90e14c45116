"""The scanners: a task for each discovering kind, so that one that fails or hangs keeps no other from its work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import structlog
import trio

from nursery.drain import Drain
from nursery.groups import unwrap
from nursery.periodic import every
from rpc.reads import Reads
from tayho.discovery.reads import LookReads
from tayho.discovery.recording import Recorder
from tayho.discovery.rules import genesis, world_of
from tayho.discovery.types import ObserveScan, Scanned
from tayho.kernel.discovery import Discovered
from tayho.kinds import DiscoveringKind

log = structlog.get_logger("tayho.discovery")

# One page, with its questions to the chain and to sources.
PAGE_SECONDS_MAX = 30.0
# Pages of one look; what is left waits for the next.
PAGES_MAX = 50
WORK_MAX = 1_000
FINDINGS_MAX = 1_000
BACKOFF_SECONDS_MAX = 60.0


class DiscoveryRefused(Exception):
    """What a kind says that it discovered cannot be taken. Nothing of the page was recorded."""


class LookCutOff(Exception):
    """A page took too long. What it found so far is lost, and will be found again."""


class Scanner:
    """The looks of one kind."""

    def __init__(
        self,
        kind: DiscoveringKind,
        recorder: Recorder,
        reads: Callable[[], Awaitable[Reads]],
        observe: ObserveScan,
    ) -> None:
        self._kind = kind
        self._recorder = recorder
        self._reads = reads
        self._observe = observe

    async def run(self, scan_seconds: float, drain: Drain) -> None:
        """Look every so often, until the drain is requested: a look under way is then cut off, for others to repeat."""
        async with trio.open_nursery() as looks:
            looks.start_soon(_cancel_at_drain, drain, looks.cancel_scope)
            await every(
                scan_seconds,
                self.look,
                jitter=0.1,
                # A kind is somebody else's code, and may raise anything.
                transient=(Exception,),
                backoff_seconds_max=max(scan_seconds, BACKOFF_SECONDS_MAX),
                on_error=self._tell,
                stop=drain,
            )
            looks.cancel_scope.cancel()

    async def look(self) -> None:
        """Take what there is, page by page. Raises whatever the kind raises, RpcError, StorageError, LookCutOff."""
        for _ in range(PAGES_MAX):
            is_more = True
            with trio.move_on_after(PAGE_SECONDS_MAX) as page:
                is_more = await self._page()
            if page.cancelled_caught:
                raise LookCutOff(f"no page within {PAGE_SECONDS_MAX:g} s: give the waits of `discover` a bound")
            if not is_more:
                break
        self._observe(self._kind.name, Scanned.LOOKED, 1)

    async def _page(self) -> bool:
        reads = LookReads(self._reads)
        found = await self._kind.discover(reads)
        _refuse_unusable(found)
        if found.findings:
            await self._recorder.record_findings(self._kind, found.findings)
        self._observe(self._kind.name, Scanned.FINDING, len(found.findings))
        if found.work:
            block = await reads.ask(genesis())
            if block is None:
                raise DiscoveryRefused("the chain shows no block 0, by which its work is named")
            counts = await self._recorder.record_work(self._kind, world_of(block), found.work)
            for what, count in counts.items():
                self._observe(self._kind.name, what, count)
        return found.is_more

    def _tell(self, error: Exception, failures: int) -> None:
        cause = unwrap(error)
        what = Scanned.LATE if isinstance(cause, LookCutOff) else Scanned.FAILED
        self._observe(self._kind.name, what, 1)
        log.warning(
            "scan_failed", kind=self._kind.name, failures=failures, error=f"{type(cause).__name__}: {cause}"[:500]
        )


async def scan(scanners: list[Scanner], scan_seconds: float, drain: Drain) -> None:
    """Run all scanners until the drain is requested."""
    async with trio.open_nursery() as kinds:
        for scanner in scanners:
            kinds.start_soon(partial(scanner.run, scan_seconds, drain))


async def _cancel_at_drain(drain: Drain, scope: trio.CancelScope) -> None:
    await drain.wait_requested()
    scope.cancel()


def _refuse_unusable(found: object) -> None:
    if not isinstance(found, Discovered):
        raise DiscoveryRefused(f"`discover` returned a {type(found).__name__}: return a tayho.kinds.Discovered")
    if len(found.work) > WORK_MAX or len(found.findings) > FINDINGS_MAX:
        raise DiscoveryRefused(
            f"a page of {len(found.work)} pieces of work and {len(found.findings)} findings: return at most {WORK_MAX} "
            "of either, and say `is_more`"
        )

"""A throw-away EVM node: anvil, from npm or from the PATH."""

import os
import shutil
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from tayho.local.process import Running, Service, ToolMissing, free_port, listening, running

_REPOSITORY: Final = Path(__file__).parents[2]
_FROM_NPM: Final = _REPOSITORY / "tools" / "node" / "node_modules" / ".bin" / "anvil"


@frozen
class Chain:
    """How the node makes blocks: one for each transaction, or every `block_seconds`, or only when told to.

    Nodes of one `genesis_seconds` (since 1970) that are told the same make the same blocks, hash for hash. Before the
    `hardfork` "london" its blocks have no base fee; None is the newest.
    """

    chain_id: int = 31337
    block_seconds: float | None = None
    mines: bool = True
    accounts: int = 10
    genesis_seconds: int | None = None
    hardfork: str | None = None


@asynccontextmanager
async def anvil(folder: Path, chain: Chain) -> AsyncGenerator[Running]:
    """Run an anvil on a loopback port; `.service.url` is its HTTP URL.

    Raises:
        ToolMissing: there is no anvil.
        LocalProcessFailed: it did not come up.
    """
    async with running(prepare(folder, chain)) as process:
        yield process


def prepare(folder: Path, chain: Chain) -> Service:
    """Say how to run it."""
    port = free_port()
    return Service(
        name="anvil",
        command=(str(find(os.environ)), *options(chain), "--host", "127.0.0.1", "--port", str(port), "--silent"),
        url=f"http://127.0.0.1:{port}",
        ready=lambda: listening(port),
        log=folder / f"anvil-{port}.log",
        folder=folder,
        # It writes its chain to disk on a gentler signal, which nobody will read.
        stop_signal=signal.SIGKILL,
    )


def options(chain: Chain) -> tuple[str, ...]:
    """The arguments that make anvil this chain."""
    if not chain.mines:
        mining: tuple[str, ...] = ("--no-mining",)
    elif chain.block_seconds is not None:
        mining = ("--block-time", f"{chain.block_seconds:g}")
    else:
        mining = ()
    genesis = () if chain.genesis_seconds is None else ("--timestamp", str(chain.genesis_seconds))
    rules = () if chain.hardfork is None else ("--hardfork", chain.hardfork)
    return ("--chain-id", str(chain.chain_id), "--accounts", str(chain.accounts), *mining, *genesis, *rules)


def find(variables: Mapping[str, str]) -> Path:
    """The anvil to start: TAYHO_ANVIL, else the PATH's, else the one that `make setup` installs.

    Raises:
        ToolMissing: there is none.
    """
    named = variables.get("TAYHO_ANVIL") or shutil.which("anvil", path=variables.get("PATH")) or str(_FROM_NPM)
    if not Path(named).exists():
        raise ToolMissing(f"anvil is missing ({named} does not exist): run `make setup`.")
    return _native(Path(named))


def _native(named: Path) -> Path:
    """The program itself where `named` is npm's launcher: signals must hit the node, not a script around it."""
    launcher = named.resolve()
    if launcher.suffix != ".mjs":
        return named
    # npm installs the one package that fits this machine, beside the launcher's.
    return next(launcher.parents[1].glob("anvil-*/bin/anvil"), named)

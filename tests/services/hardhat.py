"""A second node implementation, hardhat: what one node alone does is not taken for the protocol."""

from __future__ import annotations

import shutil
from pathlib import Path

from tayho.local.process import Service, ToolMissing, free_port, listening

_TOOLS = Path(__file__).parents[2] / "tools" / "node"
_PROGRAM = _TOOLS / "node_modules" / "hardhat" / "internal" / "cli" / "bootstrap.js"


def prepare(folder: Path) -> Service:
    """A node that mines a block for each transaction, with anvil's accounts and chain id. Raises ToolMissing."""
    node = shutil.which("node")
    if node is None or not _PROGRAM.exists():
        raise ToolMissing("hardhat is missing: run `make setup`.")
    port = free_port()
    return Service(
        name="hardhat",
        command=(
            # It keeps a notebook at home.
            *("env", f"HOME={folder}"),
            node,
            str(_PROGRAM),
            "node",
            *("--hostname", "127.0.0.1", "--port", str(port)),
            *("--config", str(_TOOLS / "hardhat.config.cjs")),
        ),
        url=f"http://127.0.0.1:{port}",
        ready=lambda: listening(port),
        log=folder / f"hardhat-{port}.log",
        # It looks for itself from where it is started.
        folder=_TOOLS,
    )

"""docs/writing-a-job-kind.md is run as it stands: compiled, registered, deployed; its jobs end with their results."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import trio

from rpc.quantities import hash32
from rpc.reads import Call
from tayho.local.development import DEPLOYER, deploy
from tayho.plugins import GROUP
from tayho.protocol import abi
from tayho.protocol.artifacts import parse
from tests.crash.conftest import crashing  # noqa: F401 - a fixture
from tests.crash.world import World
from tests.docs.markdown import ROOT, blocks, text_of
from tests.services.plug_in import register

DOCUMENT = "docs/writing-a-job-kind.md"
NODE_MODULES = ROOT / "tools" / "node" / "node_modules"

pytestmark = pytest.mark.services


async def _build(folder: Path) -> None:
    """Everything that the page tells to write and to run, below the folder."""
    (source,), (compiling,), (kinds,), (toml,) = (
        blocks(text_of(DOCUMENT), language) for language in ("solidity", "js", "python", "toml")
    )
    (folder / "Letters.sol").write_text(source)
    (folder / "compile.mjs").write_text(compiling)
    (folder / "node_modules").symlink_to(NODE_MODULES)
    await trio.run_process(["node", "compile.mjs"], cwd=folder)
    (folder / "letters" / "__init__.py").touch()
    (folder / "letters" / "kinds.py").write_text(kinds)
    register(folder, "letters", tomllib.loads(toml)["project"]["entry-points"][GROUP])


async def test_the_page_can_be_followed_to_the_end(crashing: World, tmp_path: Path) -> None:  # noqa: F811
    """Goal: a team's own contract in one page. Method: write its five files, compile, deploy, start two replicas, post
    letters while they run; each letter has one completed job, with its keeper as the result, and no job more."""
    folder = tmp_path / "team"
    folder.mkdir()
    await _build(folder)
    artifact = parse((folder / "letters" / "Letters.json").read_text())
    contract = await deploy(crashing.node, artifact.bytecode)
    for _ in range(2):
        await crashing.start(plug_in=str(folder), LETTERS_ADDRESS=str(contract), SCAN_SECONDS="1")
    for _ in range(3):
        post = {"from": str(DEPLOYER), "to": str(contract), "data": f"0x{abi.encode_call(artifact, 'post').hex()}"}
        await crashing.node.ask(Call("eth_sendTransaction", (post,), hash32, is_write=True))
    found = await crashing.await_found("letters.deliver", 3)
    assert sorted(key.rpartition("/")[2] for key, _, _ in found) == ["1", "2", "3"]
    assert {state for _, state, _ in found} == {"completed"}
    assert all(result["result"].startswith("0x") for _, _, result in found)

"""The committed artifacts are what their sources compile to, and they load as what they are."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tayho.protocol import artifacts

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tayho" / "protocol"
COMPILE = ROOT / "tools" / "compile_contracts.mjs"


def compile_contracts(*arguments: str | Path, script: Path = COMPILE) -> subprocess.CompletedProcess[str]:
    """Run the compile script. Without node there is no proof, so its absence is a failure and never a skip."""
    node = shutil.which("node")
    assert node is not None, "node is not on PATH: the reference contracts cannot be compiled; see `make setup`"
    command = [node, script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_every_artifact_is_what_its_source_compiles_to() -> None:
    """Goal: the bytecode in the package comes from the source beside it. Method: compile again, compare every byte."""
    again = compile_contracts("--check")

    assert (again.returncode, again.stderr) == (0, "")


def _count_by_two(package: Path) -> None:
    source = package / "contracts" / "Counter.sol"
    source.write_text(source.read_text().replace("count += 1", "count += 2"))


def _change_a_comment(package: Path) -> None:
    source = package / "contracts" / "Counter.sol"
    source.write_text(source.read_text().replace("A record was made.", "A record is made."))


def _change_one_byte(package: Path) -> None:
    artifact = package / "artifacts" / "Counter.json"
    document = json.loads(artifact.read_text())
    document["bytecode"] = document["bytecode"][:-2] + "00"
    artifact.write_text(json.dumps(document, indent=2) + "\n")


def _take_the_source_away(package: Path) -> None:
    shutil.copy(package / "artifacts" / "Counter.json", package / "artifacts" / "Orphan.json")


def _take_the_artifact_away(package: Path) -> None:
    (package / "artifacts" / "Counter.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_count_by_two, "Counter.json is not what its source compiles to"),
        (_change_a_comment, "Counter.json is not what its source compiles to"),
        (_change_one_byte, "Counter.json is not what its source compiles to"),
        (_take_the_source_away, "Orphan.json has no source"),
        (_take_the_artifact_away, "Counter.json is not what its source compiles to"),
    ],
)
def test_a_spoiled_artifact_is_found(spoil: Callable[[Path], None], complaint: str, tmp_path: Path) -> None:
    """Goal: the check cannot pass by accident. Method: spoil a copy of the package in one way, and check it."""
    package = tmp_path / "protocol"
    shutil.copytree(PACKAGE, package)

    spoil(package)

    found = compile_contracts("--check", package)
    mend = "mend with: node tools/compile_contracts.mjs"
    assert (found.returncode, found.stderr) == (1, f"{package / 'artifacts'}/{complaint}\n{mend}\n")


def test_compiling_twice_gives_the_same_bytes_wherever_the_source_lies(tmp_path: Path) -> None:
    """Goal: nothing of the machine enters an artifact. Method: compile a copy elsewhere, compare the files."""
    shutil.copytree(PACKAGE / "contracts", tmp_path / "contracts")

    assert compile_contracts(tmp_path).returncode == 0

    written = {path.name: path.read_bytes() for path in (tmp_path / "artifacts").iterdir()}
    assert written == {path.name: path.read_bytes() for path in (PACKAGE / "artifacts").iterdir()}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("uint256 public count", "ParserError"),
        ("function f() external pure { uint256 unused; }", "Warning"),
    ],
)
def test_a_source_that_does_not_compile_cleanly_is_refused(body: str, complaint: str, tmp_path: Path) -> None:
    """Goal: an error or a warning of the compiler stops the build with its message. Method: a contract with one."""
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    preamble = "// SPDX-License-Identifier: UNLICENSED\npragma solidity 0.8.37;\n"
    (contracts / "Broken.sol").write_text(f"{preamble}contract Broken {{ {body} }}\n")

    refused = compile_contracts(tmp_path)

    assert refused.returncode == 2
    assert complaint in refused.stderr
    assert not (tmp_path / "artifacts").exists()


def test_a_missing_compiler_is_one_clear_line(tmp_path: Path) -> None:
    """Goal: whoever has not run the set-up is told so. Method: run the script where no node_modules lies beside it."""
    script = tmp_path / "tools" / COMPILE.name
    script.parent.mkdir()
    shutil.copy(COMPILE, script)

    refused = compile_contracts("--check", PACKAGE, script=script)

    assert refused.returncode == 2
    assert refused.stderr == "the Solidity compiler is not installed: run `make setup`\n"


def test_the_package_holds_the_source_of_its_artifact() -> None:
    """Goal: source and artifact are found as package resources. Method: hash the one, compare with the other."""
    document = json.loads((PACKAGE / "artifacts" / "Counter.json").read_text())

    counter = artifacts.load("Counter")

    assert document["source"]["sha256"] == hashlib.sha256(artifacts.source("Counter").encode()).hexdigest()
    assert counter.compiler.startswith("0.8.37+")
    assert counter.bytecode.endswith(counter.deployed_bytecode)
    assert {"count", "record", "recordOnce", "recorded"} <= counter.functions.keys()


@pytest.mark.parametrize("find", [artifacts.load, artifacts.source])
def test_a_contract_that_does_not_ship_is_named(find: Callable[[str], object]) -> None:
    """Goal: a wrong name is told, not traced. Method: ask for a contract that is not there."""
    with pytest.raises(artifacts.ArtifactMissing, match="Nowhere"):
        find("Nowhere")


def _document(**changes: object) -> str:
    whole: dict[str, object] = {
        "contract": "C",
        "compiler": "0.8.37",
        "abi": [],
        "bytecode": "0x",
        "deployedBytecode": "0x",
    }
    return json.dumps({name: value for name, value in (whole | changes).items() if value is not None})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "JSON"),
        ("[]", "not an artifact"),
        (_document(abi=None), "abi"),
        (_document(bytecode="6080"), "bytecode"),
        (_document(bytecode="0x608"), "bytecode"),
        (_document(abi=[{"type": "function", "name": "f", "inputs": [{"name": "x", "type": "uint7"}]}]), "uint7"),
        (_document(abi=[{"type": "function", "name": "f", "inputs": [{"name": "x"}]}]), "type"),
        (_document(abi=[{"type": "function", "name": "f", "inputs": 7}]), "inputs"),
    ],
)
def test_a_document_that_is_no_artifact_is_refused(text: str, complaint: str) -> None:
    """Goal: a team's own ABI is refused where it is wrong, by name. Method: one malformed document each."""
    with pytest.raises(artifacts.ArtifactRefused, match=complaint):
        artifacts.parse(text)


def test_overloads_are_found_by_signature_only() -> None:
    """Goal: an ambiguous name never picks one silently. Method: two functions of one name, an anonymous event."""
    abi: list[dict[str, object]] = [
        {"type": "function", "name": "send", "inputs": [{"name": "to", "type": "address"}]},
        {
            "type": "function",
            "name": "send",
            "inputs": [
                {
                    "name": "orders",
                    "type": "tuple[2][]",
                    "components": [{"name": "to", "type": "address"}, {"name": "ids", "type": "uint8[]"}],
                }
            ],
        },
        {"type": "event", "name": "Quiet", "anonymous": True, "inputs": []},
        {"type": "fallback", "stateMutability": "payable"},
    ]

    artifact = artifacts.parse(_document(abi=abi))

    assert artifact.functions.keys() == {"send(address)", "send((address,uint8[])[2][])"}
    assert artifact.events == {}

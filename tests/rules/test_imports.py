"""Each contract of import-linter catches what is planted against it, naming only what exists (ARC-1, 2, 7)."""

import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLANTED = ROOT / "tests" / "planted" / "ARC-1" / "imports"
PACKAGES = ("nursery", "storage", "rpc", "tayho")
MARK = re.compile(r"breaks ([a-z-]+)")
LINK = re.compile(r"([\w.]+) -> [\w.]+ \((?:l\.\d+(?:, )?)+\)")
LINE = re.compile(r"l\.(\d+)")


def contracts() -> dict[str, configparser.SectionProxy]:
    """The contracts of .importlinter, by id."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return {name.rpartition(":")[2]: parser[name] for name in parser.sections() if ":contract:" in name}


def lint(house: Path) -> str:
    """What import-linter prints about the packages in a folder."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()"]
    ran = subprocess.run([*command, "--no-cache", "--no-logo"], cwd=house, capture_output=True, text=True)
    return ran.stdout + ran.stderr


def copy_of_the_house(folder: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.json"))
    shutil.copy(ROOT / ".importlinter", folder)
    return folder


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What import-linter says of the house with every planted file laid over it."""
    house = copy_of_the_house(tmp_path_factory.mktemp("house"))
    shutil.copytree(PLANTED, house, dirs_exist_ok=True)
    return lint(house)


def marks() -> Iterator[tuple[str, str, int]]:
    """Each planted import: contract, importing module, line."""
    for path in sorted(PLANTED.rglob("*.py")):
        module = ".".join(path.relative_to(PLANTED).with_suffix("").parts)
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            for contract in MARK.findall(line):
                yield contract, module, number


def reported(output: str, contract: str) -> set[tuple[str, int]]:
    """The imports that one contract complains of: importing module and line."""
    heading = contracts()[contract]["name"]
    _, _, section = output.partition(f"{heading}\n{'-' * len(heading)}\n")
    section = re.split(r"\n[^\n]+\n-{10,}\n", section)[0]
    return {(link[1], int(line)) for link in LINK.finditer(section) for line in LINE.findall(link[0])}


def test_the_house_as_it_is_keeps_every_contract(tmp_path: Path) -> None:
    """Goal: the copy that the planted files are laid over is clean. Method: lint the copy without them."""
    output = lint(copy_of_the_house(tmp_path))
    assert f"Contracts: {len(contracts())} kept, 0 broken." in output, output


@pytest.mark.parametrize(("contract", "module", "line"), list(marks()))
def test_a_planted_import_is_caught(broken: str, contract: str, module: str, line: int) -> None:
    """Goal: a contract that stops catching is noticed. Method: its report names the planted import by its line."""
    assert (module, line) in reported(broken, contract), broken


def test_a_room_without_a_layer_is_caught(broken: str) -> None:
    """Goal: a new room cannot escape the arrows. Method: a planted module of tayho that no layer names."""
    assert "The following modules are not listed as layers:\n\n- tayho.unlisted\n" in broken


def test_custody_may_import_what_it_keeps(broken: str) -> None:
    """Goal: the contract is precise. Method: custody's own import of coincurve is not reported."""
    assert "tayho.custody.planted" not in {module for module, _ in reported(broken, "keys-in-custody")}


def test_every_contract_has_a_planted_violation() -> None:
    """Goal: no contract goes unproven. Method: the planted marks name each."""
    assert {contract for contract, _, _ in marks()} == set(contracts())


def test_every_context_is_in_the_contract_of_contexts() -> None:
    """Goal: a new context is independent from its first day. Method: compare the contract with the faces on disk."""
    named = contracts()["contexts"]["modules"].split()
    assert sorted(named) == [f"tayho.{path.parent.name}" for path in sorted((ROOT / "tayho").glob("*/module.py"))]


def test_contracts_name_only_modules_that_exist() -> None:
    """Goal: no contract passes because it speaks of nothing. Method: look every module of ours up on disk."""
    for contract in contracts().values():
        for option in ("source_modules", "modules", "containers", "root_packages"):
            for module in contract.get(option, "").split():
                path = ROOT / module.replace(".", "/")
                assert path.is_dir() or path.with_suffix(".py").exists(), module

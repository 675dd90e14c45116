"""The generated contracts are current, and a stale one fails the build (CTX-12)."""

import shutil
from pathlib import Path

import pytest

from tools.contracts.face import FaceRefused
from tools.generate_contracts import complaints, generate

ROOT = Path(__file__).resolve().parents[2]
PLANTED = ROOT / "tests" / "planted" / "CTX-12"


def test_the_committed_contracts_are_current() -> None:
    """Goal: nobody calls what a context no longer has. Method: generate in memory and compare with the files."""
    assert complaints(ROOT) == []


def test_a_stale_and_an_orphaned_contract_are_caught() -> None:
    """Goal: the check notices a face that moved on. Method: a planted contract lacks a method, another its context."""
    assert complaints(PLANTED / "stale") == [
        "tayho/contracts/ledger.py is not what its face says",
        "tayho/contracts/gone.py has no context",
    ]


def test_generating_mends_what_the_check_complains_of(tmp_path: Path) -> None:
    """Goal: `make contracts` is the whole mend, and is deterministic. Method: mend a copy, check it, mend it again."""
    shutil.copytree(PLANTED / "stale", tmp_path, dirs_exist_ok=True)
    generate(tmp_path)
    assert complaints(tmp_path) == []
    text = (tmp_path / "tayho/contracts/ledger.py").read_text()
    assert "async def close(self) -> None:" in text
    assert not (tmp_path / "tayho/contracts/gone.py").exists()
    generate(tmp_path)
    assert (tmp_path / "tayho/contracts/ledger.py").read_text() == text


@pytest.mark.parametrize("changed", ["entry: Entry", '"""Add one line."""', "note: str | None = None"])
def test_every_part_of_a_signature_counts(tmp_path: Path, changed: str) -> None:
    """Goal: a change of type, default or meaning reaches the callers. Method: change one part of a current contract."""
    shutil.copytree(PLANTED / "stale", tmp_path, dirs_exist_ok=True)
    generate(tmp_path)
    contract = tmp_path / "tayho/contracts/ledger.py"
    assert changed in contract.read_text()
    contract.write_text(contract.read_text().replace(changed, changed.replace("e", "E", 1)))
    assert complaints(tmp_path) == ["tayho/contracts/ledger.py is not what its face says"]


@pytest.mark.parametrize("case", ["internal", "two_faces", "beside"])
def test_a_face_that_shows_too_much_is_refused(case: str) -> None:
    """Goal: internals do not leak into contracts. Method: faces that name an internal type, or that are two."""
    with pytest.raises(FaceRefused, match="tayho/ledger"):
        complaints(PLANTED / "refused" / case)

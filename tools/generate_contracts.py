"""`python -m tools.generate_contracts [--check]`: write tayho/contracts from the faces of the contexts.

With --check nothing is written, and a stale, missing or orphaned contract ends with exit code 1.
"""

import sys
from pathlib import Path

from tools.contracts.face import FaceRefused
from tools.contracts.writing import FOLDER, contracts_of

ROOT = Path(__file__).resolve().parents[1]


def complaints(root: Path) -> list[str]:
    """What is not as the faces would have it. Raises FaceRefused."""
    expected = contracts_of(root)
    stale = [
        f"{path} is not what its face says"
        for path, text in expected.items()
        if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != text
    ]
    return stale + [f"{path} has no context" for path in _orphans(root, expected)]


def generate(root: Path) -> None:
    """Write every contract, and remove those whose context is gone. Raises FaceRefused."""
    expected = contracts_of(root)
    for path in _orphans(root, expected):
        (root / path).unlink()
    for path, text in expected.items():
        (root / path).write_text(text, encoding="utf-8")


def _orphans(root: Path, expected: dict[str, str]) -> list[str]:
    present = (path.relative_to(root).as_posix() for path in sorted((root / FOLDER).glob("*.py")))
    return [path for path in present if path not in expected and not path.endswith("/__init__.py")]


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["--check"]:
            found = complaints(ROOT)
            for complaint in found:
                sys.stderr.write(f"{complaint}: run `make contracts`\n")
            return 1 if found else 0
        generate(ROOT)
    except FaceRefused as refused:
        sys.stderr.write(f"{refused}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

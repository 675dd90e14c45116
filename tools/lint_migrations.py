"""`python -m tools.lint_migrations [FOLDER]`: squawk over every migration that is not marked as a contract (ARC-6)."""

import subprocess
import sys
from pathlib import Path

from tools.rules.migrations import is_contract

ROOT = Path(__file__).resolve().parents[1]


def squawk(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """What squawk says of the migrations in a folder that may not destroy or block."""
    files = [path for path in sorted(folder.glob("*.sql")) if not is_contract(path.read_text(encoding="utf-8"))]
    command = [Path(sys.executable).parent / "squawk", "--config", ROOT / ".squawk.toml", *options, *files]
    return subprocess.run(command, text=True, capture_output=True, check=False)  # noqa: S603 - our own linter


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else ROOT / "sql" / "migrations"
    said = squawk(folder)
    sys.stdout.write(said.stdout + said.stderr if said.returncode else "")
    return said.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

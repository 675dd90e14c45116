"""`python -m tools.rules [PATH…]`: check the house, or only show what the given paths break."""

import sys
from pathlib import Path

from tools.rules.every import findings_in


def main(paths: list[str]) -> int:
    root = Path(__file__).resolve().parents[2]
    chosen = tuple(Path(path).resolve().relative_to(root).as_posix() for path in paths)
    findings = [
        finding
        for finding in findings_in(root)
        if not chosen or any(finding.path == path or finding.path.startswith(f"{path}/") for path in chosen)
    ]
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

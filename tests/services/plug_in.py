"""A team's own kinds, installed for one process: a folder that goes onto its PYTHONPATH."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from tayho.plugins import GROUP

ROOT = Path(__file__).resolve().parents[2]


def plug_in(folder: Path, source: str, *classes: str) -> str:
    """Write a module of kinds and register its classes, as an installed distribution would; what PYTHONPATH takes."""
    (folder / "planted_kinds.py").write_text(source, encoding="utf-8")
    return register(folder, "planted-kinds", {name.lower(): f"planted_kinds:{name}" for name in classes})


def register(folder: Path, distribution: str, points: Mapping[str, str]) -> str:
    """Register kinds that lie in the folder, as an installed distribution would; what PYTHONPATH takes."""
    told = folder / f"{distribution.replace('-', '_')}-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n", encoding="utf-8")
    lines = "".join(f"{name} = {place}\n" for name, place in points.items())
    (told / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}", encoding="utf-8")
    return str(folder)


def of_this_tree(folder: Path) -> str:
    """The kinds that pyproject.toml registers, in front of what an older installation of tayho knows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return register(folder, project["name"], project["entry-points"][GROUP])

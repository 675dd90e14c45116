"""A team's own kinds, installed for one process: a folder that goes onto its PYTHONPATH."""

from pathlib import Path

from tayho.plugins import GROUP


def plug_in(folder: Path, source: str, *classes: str) -> str:
    """Write a module of kinds and register its classes, as an installed distribution would; what PYTHONPATH takes."""
    (folder / "planted_kinds.py").write_text(source, encoding="utf-8")
    told = folder / "planted_kinds-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: planted-kinds\nVersion: 1\n", encoding="utf-8")
    points = "".join(f"{name.lower()} = planted_kinds:{name}\n" for name in classes)
    (told / "entry_points.txt").write_text(f"[{GROUP}]\n{points}", encoding="utf-8")
    return str(folder)

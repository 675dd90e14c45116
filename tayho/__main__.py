"""`python -m tayho`."""

from __future__ import annotations

from tayho.cli.main import main

if __name__ == "__main__":
    main()

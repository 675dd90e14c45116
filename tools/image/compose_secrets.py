"""Throw-away secrets for deploy/compose.yaml: `python -m tools.image.compose_secrets FOLDER`.

What the stack of that file needs and nothing else could use: a new password and a new journal key, and signers whose
keys the whole world knows. A file that is there stays as it is, because the database was made with its password.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path

from tayho.local.development import PUBLIC_ACCOUNTS

_PASSWORD = "postgres_password"  # noqa: S105 - the name of a file


def main(folder: Path) -> None:
    """Write each file that is missing, readable for the image's user and for nobody through its folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _keep(folder / _PASSWORD, secrets.token_hex(24))
    password = (folder / _PASSWORD).read_text(encoding="ascii")
    texts = {
        "owner_database_url": f"postgresql://tayho:{password}@postgres:5432/tayho",
        "database_url": f"postgresql://tayho_runtime:{secrets.token_hex(24)}@postgres:5432/tayho",
        "redis_url": "redis://redis:6379",
        "rpc_url": "http://node:8545",
        "signer_keys": json.dumps(dict(PUBLIC_ACCOUNTS)),
        "tx_journal_keys": json.dumps({"local": f"0x{secrets.token_hex(32)}"}),
    }
    for name, text in texts.items():
        _keep(folder / name, text)


def _keep(path: Path, text: str) -> None:
    if path.exists():
        return
    # Compose mounts the file as it is: the user in the container must be able to read it.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""pip's settings of this machine, as far as a build elsewhere can use them: `python -m tools.image.pip_settings FILE`.

They are handed to the build of the image as a secret: a mirror's address may carry a password. Folders of this machine
are left out, because they are not there.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

OPTIONS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout")
# Where the build is given the authorities that this machine trusts.
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


def settings_text(listed: Iterable[str]) -> str:
    """A pip.conf of what `pip config list` prints; the first word on an option is the one in force."""
    told: dict[str, str] = {}
    for line in listed:
        name, _, quoted = line.partition("=")
        # A value that Python printed in quotes is one word, however many addresses it holds.
        words = " ".join(shlex.split(quoted)).split()
        addresses = [word for word in words if not word.startswith("file:")]
        option = name.rpartition(".")[2].strip()
        if option in OPTIONS and addresses:
            told.setdefault(option, " ".join(addresses))
    lines = ["[global]", f"cert = {AUTHORITIES}", *(f"{option} = {value}" for option, value in told.items())]
    return "\n".join(lines) + "\n"


def main(path: str) -> None:
    """Write the settings to a new file that nobody else may read."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as out:
        out.write(settings_text(listed.stdout.splitlines()))


if __name__ == "__main__":
    main(str(Path(sys.argv[1])))

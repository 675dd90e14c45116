"""Running the built image as an engine would: its own root file system, read-only, without root and without rights, as
PID 1 of a process space of its own. The network is the machine's, where the servers of the tests listen."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.docs.markdown import ROOT

IMAGE = "localhost/tayho:test"
SECRETS = "/run/secrets"
# Everything is mounted in a mount space that ends with the process. Nothing of the machine is seen but three devices.
_CONTAIN = f"""
set -e
root=$1 secrets=$2 user=$3
shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
for device in null zero urandom; do : >"$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
mkdir -p "$root{SECRETS}"
mount --bind "$secrets" "$root{SECRETS}"
mount -o remount,bind,ro "$root"
mount -o remount,bind,ro "$root{SECRETS}"
exec chroot "$root" setpriv --reuid="${{user%:*}}" --regid="${{user#*:}}" --clear-groups --no-new-privs \\
    --bounding-set=-all --inh-caps=-all "$@"
"""


def buildah(*arguments: str) -> str:
    """What buildah answers, on the store that the image was built in."""
    environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(ROOT / ".image" / "storage.conf")}
    return subprocess.run(["buildah", *arguments], env=environment, capture_output=True, text=True, check=True).stdout


@frozen
class Image:
    """The image: where its files are mounted, and what it says of how it is run."""

    root: Path
    config: Mapping[str, Any]

    @property
    def user(self) -> str:
        return str(self.config["User"])

    @property
    def environment(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.config["Env"])

    def command(self, secrets: Path, command: Sequence[str]) -> list[str]:
        """What runs a command of the image contained, as PID 1."""
        space = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        return [*space, "sh", "-c", _CONTAIN, "contain", str(self.root), str(secrets), self.user, *command]

    def run(self, secrets: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the image to its end."""
        environment = {**self.environment, **variables}
        return subprocess.run(
            self.command(secrets, command), env=environment, capture_output=True, text=True, timeout=60
        )


@contextmanager
def mounted() -> Generator[Image]:
    """The image's files in a container of its own, gone afterwards."""
    container = buildah("from", IMAGE).strip()
    try:
        inspected = json.loads(buildah("inspect", "--type", "image", IMAGE))
        yield Image(Path(buildah("mount", container).strip()), inspected["Docker"]["config"])
    finally:
        buildah("rm", container)


def init_of(unshared: int) -> int:
    """The process that is PID 1 of the space that this `unshare` has made."""
    (child,) = Path(f"/proc/{unshared}/task/{unshared}/children").read_text().split()
    return int(child)


def space_of(pid: int) -> list[int]:
    """Every process of the same process space."""
    wanted = Path(f"/proc/{pid}/ns/pid").readlink()
    found: list[int] = []
    for one in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
        try:
            if Path(f"/proc/{one}/ns/pid").readlink() == wanted:
                found.append(one)
        except OSError:
            continue
    return found

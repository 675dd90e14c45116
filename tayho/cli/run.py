"""`tayho run ROLE…`: the daemon."""

from __future__ import annotations

import os

import click
import structlog

from nursery.signals import act_as_init
from tayho.api.process import process_face
from tayho.cli.outcome import ends_clearly, run_trio
from tayho.config import load_settings
from tayho.custody.module import harden_process
from tayho.daemon import run
from tayho.faults import arm_from
from tayho.observability import configure_logging
from tayho.plugins import load_kinds

log = structlog.get_logger("tayho")


@click.command("run")
@click.argument("roles", nargs=-1, required=True, metavar="ROLE…")
@ends_clearly
def run_command(roles: tuple[str, ...]) -> None:
    """Run this process as one or more ROLEs until it is told to stop.

    The configuration comes from environment variables; `tayho config check` shows it. Exit codes: 0 drained in order,
    1 crashed, 2 configuration refused, 3 environment refused.
    """
    # Before the first key is read: what is in memory then must not reach a core file or another process.
    hardening = harden_process()
    settings = load_settings(os.environ, roles)
    act_as_init(starts_children=settings.is_local_mode)
    configure_logging(settings.log_format)
    if not (hardening.core_dumps_off and hardening.not_dumpable):
        log.warning("not_hardened", applied=str(hardening))
    arm_from(os.environ, settings.environment)
    for warning in settings.warnings:
        log.warning("configuration", warning=warning)
    run_trio(run, settings, load_kinds(), process_face)

"""The `tayho` command."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.metadata import version

import click

# Loaded only when asked for: `tayho --help` must not wait for a database driver.
COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "run": ("tayho.cli.run", "run_command", "Run this process as one or more roles."),
    "health": ("tayho.cli.health", "health_command", "Ask the running process whether it is alive, or ready."),
    "config": ("tayho.cli.config", "config_group", "Look at the effective configuration."),
    "db": ("tayho.cli.db", "db_group", "Make and check the schema."),
    "jobs": ("tayho.cli.jobs", "jobs_group", "Look at jobs, explain, replay and cancel them."),
    "queues": ("tayho.cli.queues", "queues_group", "Pause and resume roles and kinds."),
    "limits": ("tayho.cli.limits", "limits_group", "Limit what one key (a tenant, an account) may have at once."),
    "schedules": ("tayho.cli.schedules", "schedules_group", "Look at recurring jobs."),
    "findings": ("tayho.cli.findings", "findings_command", "See what keeps kinds from finding work."),
    "world": ("tayho.cli.world", "world_group", "Say which chain a halted pool goes on with."),
    "tx": ("tayho.cli.tx", "tx_group", "Look at transactions, raise their fees and cancel them."),
    "intents": ("tayho.cli.intents", "intents_group", "Look at intents and batches, and let a dead batch's go."),
    "lanes": ("tayho.cli.lanes", "lanes_command", "Look at the nonce lanes."),
    "rpc": ("tayho.cli.rpc", "rpc_group", "Look at the endpoints for reads."),
    "dev": ("tayho.cli.dev", "dev_command", "Bring up a complete local stack until Ctrl-C."),
    "demo": ("tayho.cli.demo", "demo_command", "Run the main job on a local stack and count its effects on the chain."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        return getattr(importlib.import_module(module), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, _, told) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("tayho"), prog_name="tayho")
def main() -> None:
    """Durable coordination of blockchain work."""

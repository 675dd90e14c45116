"""`python -m tests.bench <subject>`: measure, and show a table; with --json the last line is for a program."""

import click

from tests.bench.chain.command import chain
from tests.bench.delivery.command import delivery
from tests.bench.engine.command import engine
from tests.bench.recovery.command import recovery
from tests.bench.rpc.command import rpc
from tests.bench.scale.command import scale


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Benchmarks. Every side of a comparison runs on this machine, in this run, on the same servers."""


main.add_command(chain)
main.add_command(delivery)
main.add_command(engine)
main.add_command(recovery)
main.add_command(rpc)
main.add_command(scale)

if __name__ == "__main__":
    main(prog_name="python -m tests.bench")

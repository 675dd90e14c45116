"""`tayho health`: the health face of this machine's process, asked without any other tool."""

from __future__ import annotations

import json
import os
import sys
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any, cast

import click

from tayho.cli.outcome import EXIT_CONFIGURATION, EXIT_FAILED
from tayho.config.kinds import Unusable
from tayho.config.settings import Bind
from tayho.config.variables import HTTP_BIND

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what was bound, not what is bound here
# Above the deadline of the checks behind the answer, and below the patience of a container's health check.
_DEADLINE_SECONDS = 4.0
_BODY_BYTES_MAX = 1_000_000


@click.command("health")
@click.option("--ready", is_flag=True, help="Ask whether it may be given work, too, and why not.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object.")
def health_command(*, ready: bool, as_json: bool) -> None:
    """Ask the process that listens on HTTP_BIND whether it is alive; exit 1 with the reasons if not.

    It reads nothing else of the configuration, and no secret: it may run beside the process, in its container.

    Example: tayho health --ready
    """
    path = "/readyz" if ready else "/healthz"
    is_well, document = _asked(_bind_to_ask(), path)
    if as_json:
        click.echo(json.dumps(document))
    else:
        for line in _lines(document):
            click.echo(line, err=not is_well)
    sys.exit(0 if is_well else EXIT_FAILED)


def _bind_to_ask() -> Bind:
    try:
        bind = HTTP_BIND.kind.read(os.environ.get(HTTP_BIND.name, HTTP_BIND.default or ""))
    except Unusable as refused:
        click.echo(f"tayho: configuration: HTTP_BIND: {HTTP_BIND.kind.expected}: {refused.found}", err=True)
        sys.exit(EXIT_CONFIGURATION)
    if bind.port == 0:
        click.echo("tayho: configuration: HTTP_BIND: with port 0 nobody knows which port to ask", err=True)
        sys.exit(EXIT_CONFIGURATION)
    return Bind(_ANYWHERE.get(bind.host, bind.host), bind.port)


def _asked(bind: Bind, path: str) -> tuple[bool, dict[str, Any]]:
    connection = HTTPConnection(bind.host, bind.port, timeout=_DEADLINE_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        document = cast("object", json.loads(answer.read(_BODY_BYTES_MAX)))
    except (OSError, HTTPException, ValueError) as error:
        return False, {"status": "unanswered", "reason": f"{bind}{path}: {error or type(error).__name__}"}
    finally:
        connection.close()
    if not isinstance(document, dict):
        return False, {"status": "unanswered", "reason": f"{bind}{path}: somebody else listens there"}
    return answer.status == HTTPStatus.OK, cast("dict[str, Any]", document)


def _lines(document: dict[str, Any]) -> list[str]:
    """A line for what it is, then one for each reason and warning."""
    told = document.get("status") or ("ready" if document.get("ready") else "not ready")
    lines = [f"{told}: {document['reason']}" if "reason" in document else str(told)]
    for kind in ("reasons", "warnings"):
        lines += [f"{kind.removesuffix('s')}: {one['check']}: {one['reason']}" for one in document.get(kind, ())]
    return lines

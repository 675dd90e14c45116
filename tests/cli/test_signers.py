"""`tayho jobs signer-…`: what is refused before anything is opened (OPS-7, OPS-9)."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from tayho.cli.main import main

OLD, NEW = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0x90F79bf6EB2c4f870365E785982E1f101E93b906"
# Nobody listens there: whoever opens the database ends with 3.
ENVIRONMENT = {
    "DATABASE_URL": "postgresql://user@127.0.0.1:9/tayho",
    "REDIS_URL": "redis://127.0.0.1:9",
    "RPC_URL": "http://127.0.0.1:9",
    "CHAIN_ID": "137",
    "ENVIRONMENT": "staging",
    "OPERATOR_ID": "ada",
}
ROTATE = ("signer-pool-rotate", "137", "staging:payouts", OLD, NEW)


def _ran(*arguments: str, **environment: str | None) -> Result:
    return CliRunner().invoke(main, ["jobs", *arguments], env={**ENVIRONMENT, **environment})


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (ROTATE, 1, "add --yes"),
        (("signer-pool-add", "137", "staging:payouts", NEW), 1, "add --yes"),
        (("signer-pool-rotate", "1", "staging:payouts", OLD, NEW, "--yes"), 1, "chain 137"),
        (("signer-pool-rotate", "137", "live:payouts", OLD, NEW, "--yes"), 1, "ENVIRONMENT"),
        (("signer-pool-rotate", "137", "staging:engine", OLD, NEW, "--yes"), 2, "ENV:ROLE"),
        (("signer-pool-rotate", "137", "payouts", OLD, NEW, "--yes"), 2, "ENV:ROLE"),
        (("signer-drain", "0x12", "10"), 2, "ADDRESS"),
        (("signer-drain", OLD), 2, "SECONDS"),
        (("signer-drain", OLD, "10"), 3, "environment"),
    ],
)
def test_a_command_that_is_not_meant_opens_nothing(arguments: tuple[str, ...], code: int, words: str) -> None:
    """Goal: what cannot be undone is asked for with care, and what is typed agrees with what is configured. Method: one
    mistake at a time; the last line is none, and meets the database that is not there."""
    ended = _ran(*arguments)
    assert (ended.exit_code, words in ended.output) == (code, True), ended.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("drain", "one"),
        ("undrain", "one"),
        ("signer-drain", OLD, "10"),
        ("signer-undrain", OLD),
        ("signer-retire-check", OLD),
        (*ROTATE, "--yes"),
        ("signer-pool-add", "137", "staging:payouts", NEW, "--yes"),
        ("key-retire-check", "2025-a"),
    ],
)
def test_no_act_without_a_name_and_each_has_an_example(arguments: tuple[str, ...]) -> None:
    """Goal: OPS-9's record names a person, and the help is enough at 3 a.m. Method: each act without OPERATOR_ID, and
    its help."""
    nobody = _ran(*arguments, OPERATOR_ID=None)
    assert (nobody.exit_code, "OPERATOR_ID" in nobody.output) == (2, True), nobody.output
    assert f"Example: OPERATOR_ID=ada tayho jobs {arguments[0]}" in _ran(arguments[0], "--help").output

"""Statements that a login must be refused, by name: tried by `tayho db qualify` (OPS-2, OPS-3)."""

from __future__ import annotations

from collections.abc import Mapping

from storage.queries import Command, command

# Whoever it is.
TO_ALL: tuple[Command, ...] = (
    command("identities/denied.make_a_role"),
    command("identities/denied.make_a_schema"),
    command("identities/denied.make_a_table"),
    command("identities/denied.make_a_public_table"),
    command("identities/denied.make_a_temporary_table"),
    command("identities/denied.alter_a_table"),
    command("identities/denied.switch_triggers_off"),
    command("identities/denied.pass_triggers_by"),
    command("identities/denied.replace_a_trigger"),
    command("identities/denied.change_the_ledger"),
    command("identities/denied.change_the_transitions"),
)
# By the names that `privileges.toml` uses.
TO_SOME: Mapping[str, Command] = {
    each.query.ref.rpartition(".")[2]: each
    for each in (
        command("identities/denied.change_operator_actions"),
        command("identities/denied.delete_operator_actions"),
        command("identities/denied.change_broadcasts"),
        command("identities/denied.delete_members"),
        command("identities/denied.delete_lineages"),
        command("identities/denied.delete_jobs"),
        command("identities/denied.read_signed_bytes"),
        command("identities/denied.read_whole_members"),
        command("identities/denied.change_lineages"),
        command("identities/denied.change_evidence"),
        command("identities/denied.delete_workers"),
        command("identities/denied.change_limits"),
        command("identities/denied.read_lineages"),
        command("identities/denied.change_intents"),
    )
}

"""Guards of discovery and of what oracles believe."""

from __future__ import annotations

from tests.guards.guard import Guard

OF_DISCOVERY = (
    Guard(
        "only the configured signer is believed",
        "tayho/protocol/sources/answers.py",
        "    if found != signer.value:",
        "    if not found:",
        "tests/protocol/sources/test_answers.py::test_only_the_signers_word_about_the_subject_counts",
    ),
    Guard(
        "an old observation is not believed",
        "tayho/protocol/sources/bounds.py",
        "    if age > bounds.age_seconds_max:",
        "    if age > 10 * bounds.age_seconds_max:",
        "tests/protocol/sources/test_answers.py::test_what_is_believed_is_within_every_bound",
    ),
    Guard(
        "of replicas that give work another job one does",
        "sql/discovery/occasions.sql",
        "    FOR UPDATE OF occasions\n",
        "",
        "tests/discovery/test_scanning.py::test_who_waited_for_another_to_advance_is_one_too_late",
    ),
)

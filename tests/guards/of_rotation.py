"""Guards of what is taken out of work: processes, signers, keys of the journal."""

from __future__ import annotations

from tests.guards.guard import Guard

OF_ROTATION = (
    Guard(
        "an undrain reaches no other process of the name",
        "tayho/coordination/control/instance_rules.py",
        "    if not alive.draining and earlier is not None:\n",
        "    if earlier is alive:\n",
        "tests/coordination/test_instances.py::test_whom_an_operator_means",
    ),
    Guard(
        "a signal is not undone",
        "tayho/coordination/control/instance_rules.py",
        "    if alive.stopping_at is not None:\n        raise InstanceStopping(instance, alive.worker_id)\n",
        "",
        "tests/coordination/test_instances.py::test_whom_an_operator_means",
    ),
    Guard(
        "a process takes nonces of keys that it has",
        "tayho/transactions/journal.py",
        "        usable = lanes if self._signers is None else self._signers.usable(lanes)\n",
        "        usable = lanes\n",
        "tests/transactions/test_rotation.py::test_a_signer_is_drained_checked_and_replaced",
    ),
    Guard(
        "a start takes nobody into a pool that has lanes",
        "tayho/transactions/lanes.py",
        "            if is_first and await",
        "            if await",
        "tests/transactions/test_rotation.py::test_a_key_without_a_place_stands_by_and_may_be_given_one",
    ),
    Guard(
        "a check grows old",
        "tayho/transactions/rotating/rules.py",
        "    if check.age_seconds > CHECK_HOLDS_SECONDS:\n",
        "    if check.age_seconds < 0:\n",
        "tests/transactions/test_rotation_rules.py::test_when_a_place_is_handed_over",
    ),
    Guard(
        "no setting shortens the retention of a key",
        "tayho/transactions/rotating/key_rules.py",
        "    days = max(facts.retention_days, RETENTION_DAYS_MIN)\n",
        "    days = facts.retention_days\n",
        "tests/transactions/test_key_rules.py::test_each_single_missing_condition_keeps_a_key",
    ),
    Guard(
        "a receipt is in the block that the journal has",
        "tayho/transactions/rotating/keys.py",
        "            if found == one.block_hash:\n",
        "            if found is not None:\n",
        "tests/transactions/test_key_retirement.py::test_a_key_is_kept_until_a_majority_has_every_receipt",
    ),
)

"""Guards of everything else."""

from __future__ import annotations

from tests.guards.guard import Guard

OF_REST = (
    Guard(
        "one bad item fails its group commit alone",
        "storage/commits.py",
        "        except (Refused, Conflict) as error:\n            if len(items) == 1:\n",
        "        except (Refused, Conflict) as error:\n            if items:\n",
        "tests/storage/test_commits.py::test_each_good_item_is_committed_once_and_each_bad_one_gets_its_own_error",
    ),
    Guard(
        "a legacy transaction has one price",
        "tayho/custody/validation.py",
        "        *_of_type(request),\n",
        "",
        "tests/custody/test_validation.py::test_each_rule_is_broken_alone",
    ),
)

"""The guards: where each stands, what the copy has in its place, and the test that must notice."""

from __future__ import annotations

from tests.guards.guard import Guard
from tests.guards.of_coordination_1 import OF_COORDINATION_1
from tests.guards.of_coordination_2 import OF_COORDINATION_2
from tests.guards.of_discovery import OF_DISCOVERY
from tests.guards.of_intents import OF_INTENTS
from tests.guards.of_reads import OF_READS
from tests.guards.of_rest import OF_REST
from tests.guards.of_rotation import OF_ROTATION
from tests.guards.of_transactions_1 import OF_TRANSACTIONS_1
from tests.guards.of_transactions_2 import OF_TRANSACTIONS_2
from tests.guards.of_transactions_3 import OF_TRANSACTIONS_3

GUARDS: tuple[Guard, ...] = (
    *OF_COORDINATION_1,
    *OF_COORDINATION_2,
    *OF_DISCOVERY,
    *OF_READS,
    *OF_TRANSACTIONS_1,
    *OF_TRANSACTIONS_2,
    *OF_TRANSACTIONS_3,
    *OF_INTENTS,
    *OF_REST,
    *OF_ROTATION,
)

"""The calmed collector looks seldom, and still finds what nothing refers to."""

import subprocess
import sys

PROGRAM = """
import gc, weakref
from nursery.collection import ALLOCATIONS_PER_COLLECTION, calm_collector

calm_collector()
assert gc.get_threshold()[0] == ALLOCATIONS_PER_COLLECTION
assert gc.get_freeze_count() > 1000

class Node:
    pass

node = Node()
node.itself = node
gone = weakref.ref(node)
del node
kept = [[] for _ in range(3 * ALLOCATIONS_PER_COLLECTION)]
assert gone() is None, "a cycle is collected by itself, later"
"""


def test_it_looks_seldom_and_still_finds_cycles() -> None:
    """Goal: what is tuned is the pace alone. Method: a process of its own makes a cycle, then many objects."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)

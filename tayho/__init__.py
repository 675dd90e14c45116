"""tayho: a durable coordinator of blockchain work. What stands here is for programs that enqueue: docs/producers.md."""

from tayho.coordination.types import Enqueued, IdempotencyConflict, NewJob
from tayho.embedding import NoTransaction, UnknownKind, enqueue, enqueue_many, role_of
from tayho.kernel.arguments import ArgumentRefused
from tayho.kernel.json_document import DocumentRefused

__all__ = [
    "ArgumentRefused",
    "DocumentRefused",
    "Enqueued",
    "IdempotencyConflict",
    "NewJob",
    "NoTransaction",
    "UnknownKind",
    "enqueue",
    "enqueue_many",
    "role_of",
]

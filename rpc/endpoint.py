"""One endpoint: typed questions in, typed answers or typed errors out."""

from __future__ import annotations

import itertools
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import TypeVar, cast

import trio

from rpc import batches, envelopes, methods
from rpc.chain_guard import ChainGuard, may_reconnect
from rpc.envelopes import Answer, Refusal
from rpc.errors import (
    ChainMismatch,
    DeadlinePassed,
    EndpointFault,
    HttpStatus,
    Malformed,
    Reason,
    Reverted,
    RpcError,
    RpcRefused,
    fault,
)
from rpc.foreign_text import printable
from rpc.json_text import parse_json
from rpc.observation import EndpointStats, Observation, outcome_of
from rpc.quantities import Unreadable
from rpc.reads import Call
from rpc.retry_after import retry_after_seconds
from rpc.reverts import revert_in, revert_reason
from rpc.transport import HTTP_OK, ExchangeFailed, HttpAnswer, HttpTransport, Progress
from rpc.urls import EndpointUrl

T = TypeVar("T")

BODY_BYTES_MAX = 16 * 1024 * 1024
"""Largest answer read by default: a full block of receipts has a few megabytes."""

_MESSAGE_CHARACTERS_MAX = 1000

# Statuses that some nodes put on top of a proper JSON-RPC error about our request. 429 and 5xx are about the
# endpoint, whatever their body says (RPC-4).
_STATUSES_WITH_ANSWER = frozenset({400, 404, 422})

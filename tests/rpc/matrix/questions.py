"""What is asked in the cells, as our calls, and the truth about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.methods import CallRequest
from rpc.quantities import as_data
from rpc.reads import Call
from tests.rpc.front.ground import ACCOUNT, CHAIN_ID, CONTRACT, Ground
from tests.rpc.matrix import forms

# Blocks on top of a transaction's own, after which it is final.
DEPTH = 8
BATCH = 3
CONSULTED = CallRequest(ACCOUNT, CONTRACT)


@frozen
class Asked:
    """The calls of a question, and how their values are written for the comparison."""

    calls: Sequence[Call[Any]]
    form: Callable[[Any], object] = lambda value: value

    def written(self, values: Sequence[object]) -> object:
        """The values in one form: a single one for a single call."""
        written = [self.form(value) for value in values]
        return written[0] if len(self.calls) == 1 else written


def asked(question: str, ground: Ground, below: int = 0) -> Asked:
    """A question about the agreed height, or about a height that lies `below`: to warm up without asking the same."""
    height = ground.height - below
    match question:
        case "nonce":
            return Asked([methods.transaction_count(ACCOUNT, height)])
        case "receipt":
            return Asked([methods.transaction_receipt(ground.transaction)], forms.of_receipt)
        case "block":
            return Asked([methods.block_by_number(height)], forms.of_header)
        case "head":
            return Asked([methods.block_number()])
        case "call":
            return Asked([methods.call(CONSULTED, height)], as_data)
        case "batch":
            heights = (height, height - 1, ground.transaction_block - 2)
            return Asked([methods.transaction_count(ACCOUNT, number) for number in heights])
        case _:
            raise ValueError(f"no such question: {question}")


async def truths(ground: Ground) -> dict[str, object]:
    """The right answer to every question, from the true chain itself."""
    async with Endpoint.open(ground.true_url, chain_id=CHAIN_ID) as node:
        found: dict[str, object] = {}
        for question in ("nonce", "receipt", "block", "head", "call", "batch"):
            every = asked(question, ground)
            found[question] = every.written([await node.ask(call) for call in every.calls])
        receipt = await node.ask(methods.transaction_receipt(ground.transaction))
        assert receipt is not None
        return found | {"final": forms.of_finality(receipt)}


def subject(ground: Ground) -> dict[str, object]:
    """The same for a peer: what to ask about."""
    return {
        "chainId": CHAIN_ID,
        "account": as_data(ACCOUNT),
        "contract": as_data(CONTRACT),
        "transaction": as_data(ground.transaction),
        "height": ground.height,
        "batch": [ground.height, ground.height - 1, ground.transaction_block - 2],
        "depth": DEPTH,
    }

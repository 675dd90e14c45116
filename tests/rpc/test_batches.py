"""When a refusal means "fewer", and what is learned from it."""

from __future__ import annotations

import pytest

from rpc.batches import BatchSize, chunks, refused_for_size, refuses_batch, refuses_size
from rpc.envelopes import NotAnswered, Refusal, Result
from rpc.quantities import Unreadable


@pytest.mark.parametrize(
    "message",
    [
        "batch too large",  # geth
        "response too large",  # geth
        "batch limit 100 exceeded (can increase by --rpc.batch.limit). Requested batch of size: 401",  # erigon
        "Batch size limit exceeded",  # nethermind
        "The batch request was too large",  # jsonrpsee
        "Response is too big",  # reth
        "Batched requests are not supported by this server",  # jsonrpsee
        "Batch of more than 3 requests are not allowed on free tier",  # drpc
        "maximum allowed batch size is 10",
        "too many requests in batch",
        "Request Entity Too Large",
    ],
)
def test_refusals_of_size_are_recognised(message: str) -> None:
    """Goal: providers' wordings mean fewer. Method: what each says."""
    assert refuses_size(Refusal(-32000, message, None))


@pytest.mark.parametrize(
    "message",
    ["nonce too low", "rate limit exceeded", "execution reverted: batch", "max fee per gas less than block base fee"],
)
def test_other_refusals_are_not(message: str) -> None:
    """Goal: other errors reach the caller at once. Method: errors with single words of size refusals."""
    assert not refuses_size(Refusal(-32000, message, None))


def test_a_node_that_does_not_understand_batches_refuses_them() -> None:
    """Goal: a node without batches is asked one by one. Method: the codes for a request not understood."""
    assert refuses_batch(Refusal(-32600, "Invalid Request", None))
    assert not refuses_batch(Refusal(-32005, "daily limit reached", None))


def test_what_was_left_out_beside_a_refusal_of_size_is_asked_again() -> None:
    """Goal: geth names one question and drops the others. Method: its answer, and one with nothing refused."""
    too_large = Refusal(-32600, "batch too large", None)
    gone = NotAnswered("not answered")
    assert refused_for_size([too_large, gone, Result("0x1"), Unreadable("twice")]) == {0, 1}
    assert refused_for_size([Result("0x1"), gone]) == frozenset()


def test_size_is_halved_and_never_grows() -> None:
    """Goal: a provider's limit is met in few steps and remembered. Method: refusals of shrinking batches."""
    size = BatchSize(50)
    assert [size.halve(50), size.halve(25), size.halve(12), size.halve(40), size.halve(2)] == [25, 13, 6, 6, 1]
    with pytest.raises(ValueError, match="at least one"):
        BatchSize(0)


def test_chunks_keep_order_and_bound() -> None:
    """Goal: every question in one chunk, in order. Method: a remainder, and nothing."""
    assert chunks([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]
    assert chunks([], 2) == []

"""Questions are asked in the form nodes read, and answers about something else are refused."""

from __future__ import annotations

import pytest

from rpc import methods
from rpc.methods import BlockRef, CallRequest
from rpc.quantities import Unreadable
from tests.rpc import examples

ADDRESS = b"\x11" * 20
HASH = b"\xab" * 32
BLOCK_HASH = b"\xcd" * 32


@pytest.mark.parametrize(
    ("block", "param"),
    [
        (0, "0x0"),
        (255, "0xff"),
        ("latest", "latest"),
        ("pending", "pending"),
        (HASH, {"blockHash": "0x" + "ab" * 32, "requireCanonical": True}),
    ],
)
def test_blocks_are_named_by_height_hash_or_tag(block: BlockRef, param: object) -> None:
    """Goal: EIP-1898. Method: each way to name a block, as a parameter."""
    assert methods.balance(ADDRESS, block).params == ("0x" + "11" * 20, param)


def test_a_call_request_names_only_what_is_set() -> None:
    """Goal: the node fills in what we leave out, and zero is not left out. Method: a bare and a full request."""
    assert CallRequest(ADDRESS, None).params() == {"from": "0x" + "11" * 20, "data": "0x", "value": "0x0"}
    full = CallRequest(ADDRESS, ADDRESS, b"\x01", 5, 6, 7, 8, 0).params()
    assert full == {
        "from": "0x" + "11" * 20,
        "to": "0x" + "11" * 20,
        "data": "0x01",
        "value": "0x5",
        "gas": "0x6",
        "maxFeePerGas": "0x7",
        "maxPriorityFeePerGas": "0x8",
        "nonce": "0x0",
    }


def test_null_is_an_answer_where_it_may_be() -> None:
    """Goal: RPC-4, null is an answer; but there is always a latest block. Method: null to each such method."""
    assert methods.transaction_receipt(HASH).parse(None) is None
    assert methods.transaction_by_hash(HASH).parse(None) is None
    assert methods.block_by_hash(HASH).parse(None) is None
    assert methods.block_by_number(7).parse(None) is None
    assert methods.block_by_number("finalized").parse(None) is None
    with pytest.raises(Unreadable, match="null for the latest"):
        methods.block_by_number("latest").parse(None)
    for call in (methods.block_number(), methods.balance(ADDRESS, 1), methods.call(CallRequest(ADDRESS, None), 1)):
        with pytest.raises(Unreadable):
            call.parse(None)


def test_answers_about_something_else_are_refused() -> None:
    """Goal: mixed-up answers are no values (RPC-8). Method: honest answers to another question."""
    assert methods.transaction_receipt(HASH).parse(examples.receipt()) is not None
    for call, answer in [
        (methods.transaction_receipt(BLOCK_HASH), examples.receipt()),
        (methods.transaction_by_hash(BLOCK_HASH), examples.transaction()),
        (methods.block_by_hash(HASH), examples.block()),
        (methods.block_by_number(17), examples.block()),
        (methods.fee_history(1, "latest", [10, 50]), examples.fee_history(gasUsedRatio=[0, 1])),
        (methods.fee_history(2, 17, [10, 50]), examples.fee_history(gasUsedRatio=[0, 1])),
    ]:
        with pytest.raises(Unreadable, match="asked for"):
            call.parse(answer)


def test_a_fee_history_ends_at_the_block_asked() -> None:
    """Goal: fees of other blocks are not taken for the present market. Method: the block asked, and no block at all."""
    history = methods.fee_history(2, 16, [10, 50]).parse(examples.fee_history(gasUsedRatio=[0, 1]))
    assert history.oldest_block == 15
    nothing = {"oldestBlock": "0x0", "baseFeePerGas": ["0x7"], "gasUsedRatio": [], "reward": []}
    assert methods.fee_history(2, 16, [50]).parse(nothing).reward_wei == ()


def test_a_gas_price_is_a_quantity() -> None:
    """Goal: a price is read strictly. Method: a quantity; a number, a padded one and nothing."""
    assert methods.gas_price().parse("0x3b9aca00") == 10**9
    for wrong in (7, "0x07", "7", None, "0x" + "f" * 65):
        with pytest.raises(Unreadable):
            methods.gas_price().parse(wrong)


def test_logs_outside_the_question_are_refused() -> None:
    """Goal: an event nobody asked for is not counted as money. Method: each condition of the filter violated once."""
    topics = [[b"\x01" * 32], [], []]
    event = examples.log(topics=["0x" + "01" * 32, "0x" + "02" * 32, "0x" + "03" * 32])
    wanted = methods.logs((16, 16), addresses=[ADDRESS], topics=topics)
    assert len(wanted.parse([event, event | {"logIndex": "0x4"}])) == 2
    assert len(methods.logs(BLOCK_HASH).parse([event])) == 1
    assert wanted.parse([]) == ()
    for call, answer in [
        (wanted, [event | {"address": "0x" + "12" * 20}]),
        (wanted, [event | {"blockNumber": "0x11"}]),
        (wanted, [event | {"topics": ["0x" + "04" * 32, "0x" + "02" * 32, "0x" + "03" * 32]}]),
        (wanted, [event | {"topics": ["0x" + "01" * 32]}]),
        (wanted, [event, event]),
        (wanted, None),
        (methods.logs(HASH), [event]),
    ]:
        with pytest.raises(Unreadable):
            call.parse(answer)


def test_log_filters_are_asked_in_the_nodes_form() -> None:
    """Goal: any is null, alternatives are arrays, nothing asked is nothing sent. Method: the parameters themselves."""
    topic = "0x" + "ab" * 32
    assert methods.logs((1, 2)).params == ({"fromBlock": "0x1", "toBlock": "0x2"},)
    assert methods.logs(BLOCK_HASH, addresses=[ADDRESS], topics=[[], [HASH]]).params == (
        {"blockHash": "0x" + "cd" * 32, "address": ["0x" + "11" * 20], "topics": [None, [topic]]},
    )


def test_a_signed_transaction_is_not_shown() -> None:
    """Goal: signed bytes reach no log by accident. Method: the repr of the call."""
    call = methods.send_raw_transaction(b"\x02\xf8\x6b" * 40)
    assert call.is_write
    assert "f86b" not in repr(call)


def test_arguments_of_a_wrong_length_are_our_mistake() -> None:
    """Goal: a wrong argument stops before the wire. Method: short addresses and hashes."""
    with pytest.raises(ValueError, match="expected 20"):
        methods.balance(b"\x01", "latest")
    with pytest.raises(ValueError, match="expected 32"):
        methods.transaction_receipt(b"\x01")
    with pytest.raises(ValueError, match="expected 32"):
        methods.balance(ADDRESS, b"\x01")


def test_a_client_version_is_printable_and_short() -> None:
    """Goal: a node's own name cannot forge log lines. Method: control characters and a megabyte."""
    version = methods.client_version().parse("Geth/v1\n\x1b[31m" + "x" * 1_000_000)
    assert version.startswith("Geth/v1  [31mxxx")
    assert len(version) == 201

"""Redirections over scripted nodes: what is sent where, and what is believed when it goes wrong on the way."""

from collections.abc import Iterable
from typing import Any

import hiredis
import pytest
import trio
from attrs import define, field
from redis.exceptions import (
    AskError,
    ConnectionError,  # noqa: A004
    MovedError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from storage.errors import QueueUnavailable, ReplyLost
from storage.redis_cluster import REDIRECTS_MAX, Cluster, slot_of
from storage.redis_url import Address
from storage.redis_wire import Deposed, Exchange, Redirected

HOME: Address = ("home", 1)
AWAY: Address = ("away", 2)
FAR: Address = ("far", 3)


@define(eq=False)
class _Node:
    """A node, its pool and its only connection in one: answers by what a command's last word is in `says`."""

    # An Exception among the answers is raised; None is never answered.
    says: dict[str, object] = field(factory=dict[str, object])
    is_reachable: bool = True
    heard: list[str] = field(factory=list[str])
    unread: list[str] = field(factory=list[str])
    is_open: bool = True

    async def get_connection(self) -> "_Node":
        if not self.is_reachable:
            raise ConnectionError("refused")
        self.is_open = True
        return self

    async def release(self, connection: object) -> None:
        self.unread.clear()

    async def disconnect(self, nowait: bool = False, inuse_connections: bool = True) -> None:
        self.is_open = False

    async def aclose(self) -> None:
        self.is_open = False

    async def check_health(self) -> None:
        """It is always well."""

    async def send_packed_command(self, command: Iterable[bytes], check_health: bool = True) -> None:
        requests = hiredis.Reader(encoding="utf-8")
        for each in command:
            requests.feed(each)
        while (words := requests.gets()) is not False:
            self.heard.append(" ".join(words))
            self.unread.append(self.heard[-1])

    async def read_response(self) -> Any:
        word = self.unread.pop(0)
        answer = self.says.get(word.split()[-1], f"{word} done")
        if answer is None:
            await trio.sleep_forever()
        if isinstance(answer, Exception):
            raise answer
        return answer


@define
class _Slots:
    """Everything is at home, until it is forgotten."""

    forgotten: int = 0

    async def owner_of(self, slot: int | None) -> Address:
        return HOME

    def known_masters(self) -> set[Address]:
        return {HOME, AWAY, FAR}

    def forget(self) -> None:
        self.forgotten += 1


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> dict[Address, _Node]:
    nodes = {address: _Node() for address in (HOME, AWAY, FAR)}
    monkeypatch.setattr(
        "storage.redis_cluster.new_pool", lambda settings, **_: nodes[settings["host"], settings["port"]]
    )
    return nodes


async def _carried(*keys: str) -> tuple[list[object], _Slots]:
    """The outcome of a GET of each key, and what became of the map."""
    slots = _Slots()
    exchange = Exchange([("GET", key) for key in keys])
    cause: Exception | None = None
    with trio.move_on_after(0.2):
        try:
            await Cluster(slots, {}, connections_max=1, connect_seconds=1).carry(exchange)  # type: ignore[arg-type]
        except (ConnectionError, OSError) as error:
            cause = error
    return exchange.outcome(cause, "here"), slots


def _moved(to: Address = AWAY) -> MovedError:
    return MovedError(f"1 {to[0]}:{to[1]}")


async def test_only_what_was_moved_is_sent_on_and_every_reply_is_in_its_place(nodes: dict[Address, _Node]) -> None:
    """Goal: nothing is executed twice. Method: two of four moved, to two nodes; who heard what, and the replies."""
    nodes[HOME].says = {"b": _moved(), "d": _moved(FAR)}
    replies, slots = await _carried("a", "b", "c", "d")
    assert replies == ["GET a done", "GET b done", "GET c done", "GET d done"]
    assert nodes[HOME].heard == ["GET a", "GET b", "GET c", "GET d"]
    assert (nodes[AWAY].heard, nodes[FAR].heard) == (["GET b"], ["GET d"])
    assert slots.forgotten


async def test_a_slot_that_is_still_moving_is_asked_for_and_not_learned(nodes: dict[Address, _Node]) -> None:
    """Goal: ASK concerns its command alone. Method: two asked for; ASKING before each; the map is kept."""
    nodes[HOME].says = {"b": AskError("1 away:2"), "c": AskError("1 away:2")}
    nodes[AWAY].says = {"ASKING": "OK", "c": TryAgainError("half of it")}
    (one, two, three), slots = await _carried("a", "b", "c")
    assert (one, two) == ("GET a done", "GET b done")
    assert type(three) is QueueUnavailable
    assert nodes[AWAY].heard == ["ASKING", "GET b", "ASKING", "GET c"]
    assert not slots.forgotten


async def test_a_node_without_a_name_means_the_host_that_was_asked(nodes: dict[Address, _Node]) -> None:
    """Goal: Redis' short form of a redirection. Method: addresses without a host, at home and away."""
    nodes["home", 9], nodes["away", 9] = _Node(), _Node()
    nodes[HOME].says, nodes[AWAY].says = {"a": MovedError("1 :9"), "b": _moved()}, {"b": MovedError("1 :9")}
    replies, _ = await _carried("a", "b")
    assert replies == ["GET a done", "GET b done"]
    assert (nodes["home", 9].heard, nodes["away", 9].heard) == (["GET a"], ["GET b"])


async def test_what_cannot_be_sent_on_was_not_executed(nodes: dict[Address, _Node]) -> None:
    """Goal: certain failure is told from doubt. Method: the target is unreachable; other replies are kept."""
    nodes[HOME].says = {"b": _moved()}
    nodes[AWAY].is_reachable = False
    (one, two), slots = await _carried("a", "b")
    assert one == "GET a done"
    assert type(two) is Redirected
    assert isinstance(two, QueueUnavailable)
    assert slots.forgotten


@pytest.mark.parametrize("answer", [None, ConnectionError("reset")])
async def test_what_was_sent_on_and_not_answered_is_unknown(nodes: dict[Address, _Node], answer: object) -> None:
    """Goal: a redirected command may have been executed. Method: the target breaks, or is silent, at the second."""
    nodes[HOME].says = {"b": _moved(), "c": _moved(), "d": _moved()}
    nodes[AWAY].says = {"c": answer}
    (one, two, three, four), slots = await _carried("a", "b", "c", "d")
    assert (one, two) == ("GET a done", "GET b done")
    assert [type(each) for each in (three, four)] == [ReplyLost, ReplyLost]
    assert not nodes[AWAY].is_open
    assert slots.forgotten


async def test_two_nodes_that_point_at_each_other_end_in_a_refusal(nodes: dict[Address, _Node]) -> None:
    """Goal: no endless chase. Method: home says away, away says home; how often each was asked."""
    nodes[HOME].says, nodes[AWAY].says = {"a": _moved()}, {"a": _moved(HOME)}
    [reply], _ = await _carried("a")
    assert type(reply) is Redirected
    assert len(nodes[HOME].heard) + len(nodes[AWAY].heard) == 1 + REDIRECTS_MAX


@pytest.mark.parametrize("error", [ReadOnlyError("a replica"), ResponseError("UNBLOCKED force unblock")])
async def test_a_deposed_node_is_left_and_the_map_forgotten(nodes: dict[Address, _Node], error: Exception) -> None:
    """Goal: the next exchange looks for the new master. Method: each way in which a node says that it is none."""
    nodes[HOME].says = {"b": error}
    (one, two), slots = await _carried("a", "b")
    assert (one, type(two)) == ("GET a done", Deposed)
    assert not nodes[HOME].is_open
    assert slots.forgotten


@pytest.mark.parametrize(
    ("command", "same_as"),
    [
        (("EVALSHA", "digest", 2, "{q}:a", "{q}:b", "argument"), ("GET", "q")),
        (("EVAL", "return 1", 1, "{q}:a"), ("GET", "q")),
        (("BZPOPMIN", "{q}:marker", "1.000"), ("GET", "q")),
        (("HGETALL", "{q}:\udcff"), ("GET", "q")),
        (("HGETALL", b"{q}:\xff"), ("GET", "q")),
        (("PING",), None),
        (("EVAL", "return 1", 0), None),
    ],
)
def test_a_command_belongs_to_the_slot_of_its_first_key(command: Any, same_as: Any) -> None:
    """Goal: scripts and plain commands of a queue meet at one node. Method: each shape that is used, and no key."""
    assert slot_of(command) == (None if same_as is None else slot_of(same_as))

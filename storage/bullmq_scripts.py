"""Carries the conversations of the official bullmq package with Redis, many at a time.

The package builds every script call and reads every answer; how the calls travel is ours. Its coroutines are run by
hand up to the point where they await a script, the calls of all of them leave in one exchange, and each coroutine
goes on with its own answer. So a batch of any of the package's operations costs one round trip per step, without the
package's connection, and a script's refusal is known by its number instead of by the text of a TypeError.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from enum import IntEnum
from functools import cache, partial
from hashlib import sha1
from typing import Any, Final, cast

from attrs import frozen

from storage.bullmq_package import load_script, script_files
from storage.errors import QueueUnavailable, StorageError
from storage.redis_client import RedisServer
from storage.redis_wire import Argument, Command, ScriptMissing

# Scripts vanish with SCRIPT FLUSH, a restart or a failover; twice within one call is a Redis that keeps none.
_LESSONS_MAX: Final = 3


class RefusalCode(IntEnum):
    """Why a script changed nothing (bullmq/error_code.py). Codes that our calls cannot meet are left out."""

    RECORD_GONE = -1
    LOCK_GONE = -2
    NOT_ACTIVE = -3
    CHILDREN_PENDING = -4
    LOCK_OF_ANOTHER = -6
    CHILDREN_FAILED = -9


class ScriptRefused(StorageError):
    """A BullMQ script answered with a negative code; it changed nothing."""

    def __init__(self, script: str, code: int) -> None:
        super().__init__(f"BullMQ's script {script} refused with code {code}.")
        self.script = script
        self.code = code


@frozen
class ScriptCall:
    """One call of one of BullMQ's scripts, as the package wants it made."""

    script: str
    keys: Sequence[Argument]
    args: Sequence[Argument]

    def command(self) -> Command:
        """The call by the script's digest."""
        return ("EVALSHA", _digest(self.script), len(self.keys), *self.keys, *self.args)

    def teaching_command(self) -> Command:
        """The call with the script's text, after which Redis knows the script by its digest."""
        return ("EVAL", _text(self.script), len(self.keys), *self.keys, *self.args)


class ScriptCarrier:
    """Stands where the bullmq package expects its Redis connection: its scripts are handed to whoever runs them."""

    # The package's own Redis client: none. What it would do on it directly is not used.
    conn = None

    def __init__(self) -> None:
        self.commands = {name: partial(_asking, name) for name in script_files}

    async def getRedisVersion(self) -> None:  # noqa: N802 - the package's name
        """Unknown counts as modern to the package; that it is modern is checked at readiness."""
        return


class Conversation:
    """One of the package's coroutines, held at the script call whose answer it awaits.

    Invariant: `call` is None as soon as, and only when, `outcome` is final.
    """

    def __init__(self, work: Awaitable[Any]) -> None:
        """Run the work to its first call. What it raises before that is a bad argument and leaves at once."""
        self.outcome: Any = None
        self._steps = work.__await__()
        self.call: ScriptCall | None = self._advanced(self._steps.send, None)

    def answer(self, reply: object) -> None:
        """Go on with the reply to `call`; a StorageError is raised inside the coroutine, and becomes its outcome."""
        call = cast("ScriptCall", self.call)
        try:
            if isinstance(reply, StorageError):
                self.call = self._advanced(self._steps.throw, reply)
            elif isinstance(reply, int) and reply < 0:
                self.call = self._advanced(self._steps.throw, ScriptRefused(call.script, reply))
            else:
                self.call = self._advanced(self._steps.send, reply)
        except StorageError as error:
            self.call, self.outcome = None, error

    def _advanced(self, resume: Callable[[Any], object], value: object) -> ScriptCall | None:
        try:
            call = resume(value)
        except StopIteration as stop:
            self.outcome = stop.value
            return None
        if not isinstance(call, ScriptCall):
            raise TypeError(f"bullmq awaited {type(call).__name__}, not one of its scripts: nobody here serves that.")
        return call


async def converse(server: RedisServer, conversations: Sequence[Conversation]) -> list[Any]:
    """Bring all conversations to their ends, one exchange per step; the outcome of each, in order.

    An outcome is what the package returned, or a StorageError: ScriptRefused, ReplyLost, QueueUnavailable (not
    executed) or QueueRefused.

    Raises:
        QueueUnavailable: nothing was sent at all.
    """
    waiting = [each for each in conversations if each.call is not None]
    while waiting:
        replies = await _carried(server, [cast("ScriptCall", each.call) for each in waiting])
        for each, reply in zip(waiting, replies, strict=True):
            each.answer(reply)
        waiting = [each for each in waiting if each.call is not None]
    return [each.outcome for each in conversations]


async def _carried(server: RedisServer, calls: Sequence[ScriptCall]) -> list[object]:
    """Make the calls in one exchange; those that Redis did not know, and so did not execute, again once it does."""
    replies = await server.ask([call.command() for call in calls])
    for _ in range(_LESSONS_MAX):
        unknown = [at for at, reply in enumerate(replies) if isinstance(reply, ScriptMissing)]
        if not unknown:
            return replies
        for at, reply in zip(unknown, await _taught_and_made(server, [calls[at] for at in unknown]), strict=True):
            replies[at] = reply
    lost = QueueUnavailable(f"Redis at {server.shown} keeps no scripts: they vanish as fast as it learns them.")
    return [lost if isinstance(reply, ScriptMissing) else reply for reply in replies]


async def _taught_and_made(server: RedisServer, calls: Sequence[ScriptCall]) -> list[object]:
    """Make the calls, the first of each script with its text. An error here never hides the replies of other calls.

    Not by SCRIPT LOAD, which names no key: in a cluster nothing says to which node it must go.
    """
    taught: set[str] = set()
    commands: list[Command] = []
    for call in calls:
        commands.append(call.command() if call.script in taught else call.teaching_command())
        taught.add(call.script)
    try:
        return await server.ask(commands)
    except QueueUnavailable as error:
        return [error] * len(calls)


class _Asking:
    """What a coroutine of the package awaits instead of a reply."""

    def __init__(self, call: ScriptCall) -> None:
        self._call = call

    def __await__(self) -> Generator[ScriptCall, Any, Any]:
        return (yield self._call)


def _asking(
    script: str, keys: Sequence[Argument] = (), args: Sequence[Argument] = (), _client: object = None, **_: object
) -> _Asking:
    """As the package calls a registered script; the client that it may name is not asked."""
    return _Asking(ScriptCall(script, keys, args))


@cache
def _text(script: str) -> str:
    return load_script(script_files[script])


@cache
def _digest(script: str) -> str:
    # Redis' own name for a script is its SHA-1; nothing is protected by it.
    return sha1(_text(script).encode(), usedforsecurity=False).hexdigest()

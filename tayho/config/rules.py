"""What variables must satisfy together, and what is allowed but probably not meant. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from rpc.hosts import host_of, repeated_hosts
from tayho.config import variables as table
from tayho.config.errors import Problem
from tayho.config.kinds import quoted
from tayho.config.reading import Texts
from tayho.config.secret_kinds import names_cluster
from tayho.config.values import Values
from tayho.config.variable import Need
from tayho.kernel.roles import ROLES

LIVE = "live"
ENGINE = "engine"
VOTERS_MIN = 3
SIGNERS_BY_DEFAULT = 2
# Below a thousandth of a gwei a ceiling was most likely written in gwei.
_FEE_WEI_SUSPICIOUS = 1_000_000
_LIVE_BY_ANOTHER_NAME = frozenset({"prod", "production", "main", "mainnet"})


@frozen
class Situation:
    """What is known of a process before its variables are read: it decides which of them are required."""

    # Known ones, each once. None at all where only a configuration is checked.
    roles: tuple[str, ...]
    is_local_mode: bool

    @property
    def signing_roles(self) -> tuple[str, ...]:
        return tuple(role for role in self.roles if ROLES[role].signs)

    def asks_for(self, need: Need | None) -> bool:
        """Whether a variable of this need must be set."""
        match need:
            case None:
                return False
            case Need.OUTSIDE_LOCAL_MODE:
                return not self.is_local_mode
            case Need.SIGNING:
                return bool(self.signing_roles)
            case Need.RELAYER:
                return "relayer" in self.roles
            case Need.ENGINE:
                return ENGINE in self.roles

    @property
    def holds_no_key(self) -> bool:
        """Whether the process has work to do and none of it signs."""
        return bool(self.roles) and not self.signing_roles


def situation_of(roles: Sequence[str], texts: Texts) -> Situation:
    """The situation. Local mode is neither URL named: a malformed one is a mistake, not a wish for throw-away data."""
    known = tuple(role for role in dict.fromkeys(roles) if role in ROLES)
    return Situation(known, not texts.named & {table.DATABASE_URL.name, table.REDIS_URL.name})


def role_problems(roles: Sequence[str]) -> Iterator[Problem]:
    """Unknown roles, and more than one that signs: a process serves one pool of signers."""
    for role in dict.fromkeys(roles):
        if role not in ROLES:
            yield Problem("ROLE", f"one of {', '.join(ROLES)}", quoted(role))
    signing = [role for role in dict.fromkeys(roles) if role in ROLES and ROLES[role].signs]
    if len(signing) > 1:
        expected = "at most one role that signs: a process serves one pool of signers, so run the others by themselves"
        yield Problem("ROLE", expected, ", ".join(signing))


def store_problems(values: Values, texts: Texts, situation: Situation) -> Iterator[Problem]:
    """The two URLs of the stores come together, and their absence is a choice that can be forbidden."""
    urls = (table.DATABASE_URL, table.REDIS_URL)
    if not situation.is_local_mode:
        for missing, other in (urls, urls[::-1]):
            if missing.name not in texts.named:
                expected = f"a URL, because {other.name} is set and the two are inseparable"
                yield Problem(missing.name, expected, "nothing")
        return
    reason = None
    if values.find(table.INFRASTRUCTURE_REQUIRED):
        reason = f"{table.INFRASTRUCTURE_REQUIRED.name} forbids local mode"
    elif values.find(table.ENVIRONMENT) == LIVE:
        reason = "local mode would throw the journal of a live environment away at exit"
    if reason is not None:
        for missing in urls:
            yield Problem(missing.name, f"a URL, because {reason}", "nothing")


def engine_problems(values: Values, texts: Texts, situation: Situation) -> Iterator[Problem]:
    """What speaks with strangers holds no key: not by its variables, and on a live chain not by a role beside it."""
    if ENGINE not in situation.roles:
        return
    if situation.signing_roles and values.find(table.ENVIRONMENT) == LIVE:
        expected = f"{ENGINE} without a role that signs: what speaks with strangers holds no key on a live chain"
        yield Problem("ROLE", expected, f"{ENGINE} beside {', '.join(situation.signing_roles)}")
    if situation.holds_no_key:
        for variable in table.KEY_VARIABLES:
            if variable.name in texts.named:
                yield Problem(
                    variable.name, f"nothing, because the role {ENGINE} holds no key", "a text, not looked at"
                )


def batch_problems(values: Values, texts: Texts) -> Iterator[Problem]:
    """An executor serves one protocol, and a batch is for that one."""
    executor, protocol = table.BATCH_EXECUTOR_ADDRESS, table.PROTOCOL_ADDRESS
    if values.find(executor) is not None and protocol.name not in texts.named:
        yield Problem(protocol.name, f"an address, because {executor.name} is set", "nothing")


def queue_problems(values: Values) -> Iterator[Problem]:
    """In a cluster a prefix without a hash tag would scatter the keys of one queue over all nodes."""
    url, prefix = values.find(table.REDIS_URL), values.find(table.QUEUE_PREFIX)
    if url is not None and prefix is not None and names_cluster(url) and not prefix.startswith("{"):
        expected = f"a prefix in braces, such as {{{prefix}}}, because {table.REDIS_URL.name} names a cluster"
        yield Problem(table.QUEUE_PREFIX.name, expected, prefix)


def range_problems(values: Values) -> Iterator[Problem]:
    """Numbers that are sane alone and not together."""
    lock_seconds, poll_milliseconds = values.find(table.QUEUE_LOCK_SECONDS), values.find(table.OUTBOX_POLL_MILLISECONDS)
    if lock_seconds is not None and poll_milliseconds is not None and lock_seconds * 1_000 < 2 * poll_milliseconds:
        yield Problem(
            table.QUEUE_LOCK_SECONDS.name,
            f"at least twice {table.OUTBOX_POLL_MILLISECONDS.name} ({poll_milliseconds} ms), because a delivery's lock "
            "must outlast a late publisher",
            f"{lock_seconds} s",
        )
    pairs = (
        (
            table.QUEUE_RECONCILE_SECONDS,
            table.QUEUE_LOCK_SECONDS,
            "a lost delivery is not free before its lock has run out",
        ),
        (
            table.TX_REORG_LOOKBACK_BLOCKS,
            table.TX_CONFIRMATIONS,
            "a receipt must still be looked at when it becomes final",
        ),
        (
            table.TX_STUCK_SECONDS,
            table.TX_RECONCILE_SECONDS,
            "a transaction is not stuck before its receipt was asked for once",
        ),
    )
    for larger, smaller, why in pairs:
        found, least = values.find(larger), values.find(smaller)
        if found is not None and least is not None and found < least:
            yield Problem(larger.name, f"at least {smaller.name} ({least}), because {why}", str(found))
    if values.find(table.ENVIRONMENT) == LIVE and values.find(table.TX_CONFIRMATIONS) == 0:
        expected = "at least 1 on a live chain, because an unconfirmed receipt proves nothing"
        yield Problem(table.TX_CONFIRMATIONS.name, expected, "0")


def voter_problems(values: Values, situation: Situation) -> Iterator[Problem]:
    """On a live chain every voter is a host of its own, and a role that signs needs three (RPC-6)."""
    urls = values.find(table.RPC_READ_URLS)
    if urls is None or values.find(table.ENVIRONMENT) != LIVE:
        return
    for number, first, host in repeated_hosts(urls):
        found = f"URL {number} on {host}, the host of URL {first}"
        yield Problem(table.RPC_READ_URLS.name, "a host of its own for each URL: one host has one vote", found)
    hosts = {host_of(url) for url in urls}
    if situation.signing_roles and len(hosts) < VOTERS_MIN:
        expected = f"{VOTERS_MIN} distinct hosts or more: a live chain is believed by majority only"
        yield Problem(table.RPC_READ_URLS.name, expected, f"{len(hosts)}")


def warnings_of(values: Values, texts: Texts, situation: Situation) -> Iterator[str]:
    """What can be run with, and is probably not meant."""
    environment = values.find(table.ENVIRONMENT)
    if environment in _LIVE_BY_ANOTHER_NAME:
        yield f"ENVIRONMENT is {environment}: the guards of a live chain apply only under the name live"
    pool = values.find(table.SIGNER_KEYS_VARIABLE)
    if pool is not None and environment == LIVE and len(pool.addresses) != SIGNERS_BY_DEFAULT:
        yield (
            f"SIGNER_KEYS holds {len(pool.addresses)} signers: with {SIGNERS_BY_DEFAULT} either can be rotated "
            "while the other works"
        )
    fee_wei_max = values.find(table.TX_MAX_FEE_PER_GAS_WEI)
    if fee_wei_max is not None and environment == LIVE and fee_wei_max < _FEE_WEI_SUSPICIOUS:
        yield f"TX_MAX_FEE_PER_GAS_WEI is {fee_wei_max} wei: no gwei are meant, and so low a ceiling may hold all work"
    if situation.is_local_mode and situation.signing_roles and table.RPC_URL.name in texts.named:
        yield "local mode throws the journal away at exit, and RPC_URL names a chain that stays: use it for tests only"
    yield from _few_voters(values, situation)
    if situation.holds_no_key and ENGINE not in situation.roles:
        for variable in (table.SIGNER_KEYS_VARIABLE, table.TX_JOURNAL_KEYS_VARIABLE):
            if variable.name in texts.named:
                yield f"{variable.name} is set and no role here signs: it was not looked at; take it away"


def _few_voters(values: Values, situation: Situation) -> Iterator[str]:
    """Off a live chain a role that signs may believe fewer than three; a person should know what that costs."""
    urls = values.find(table.RPC_READ_URLS)
    if urls is None or values.find(table.ENVIRONMENT) == LIVE:
        return
    hosts = {host_of(url) for url in urls}
    if situation.signing_roles and not situation.is_local_mode and len(hosts) < VOTERS_MIN:
        cost = "one that lies is believed" if len(hosts) == 1 else "one that is down or lies stops every decision"
        yield f"RPC_READ_URLS names {len(hosts)} host{'s' if len(hosts) > 1 else ''} of {VOTERS_MIN}: {cost}"

"""The table of variables: one entry each, from which parsing, `tayho config check` and the README are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tayho.config.kinds import address, bind, choice, name, networks, whole, yes_or_no
from tayho.config.market_kinds import markets
from tayho.config.secret_kinds import (
    database_url,
    endpoint_url,
    endpoint_urls,
    journal_ring,
    pseudonyms,
    redis_url,
    signer_pool,
)
from tayho.config.variable import Need, Variable

LOCAL_CHAIN_ID = 31_337
LOCAL_ENVIRONMENT = "local"
_CHAIN_ID_MAX = (2**64 - 1) // 2 - 36  # EIP-2294
_GAS_LIMIT_MAX = 2**24  # EIP-7825
_BASIS_POINTS = 10_000
_ENVIRONMENT = r"[a-z][a-z0-9-]{0,62}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
# BullMQ puts it before a colon and the queue's name; braces make it the hash tag of a Redis Cluster.
_PREFIX = r"(?P<brace>\{)?[A-Za-z0-9][A-Za-z0-9._-]{0,62}(?(brace)\})"
_KEY_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}"

DATABASE_URL = Variable(
    "DATABASE_URL",
    database_url(),
    "PostgreSQL 16 or later; of several hosts the writer is found",
    unset="local mode, if REDIS_URL is unset too",
    is_masked=True,
)
DATABASE_POOL_SIZE = Variable(
    "DATABASE_POOL_SIZE",
    whole(
        2,
        1_000,
        below="one connection would let a long statement hold up the heartbeat",
        above="no server gives one process so many connections",
    ),
    "connections of this process, the listener's apart",
    "10",
)
REDIS_URL = Variable(
    "REDIS_URL",
    redis_url(),
    "Redis 7 or later, with maxmemory-policy noeviction: one server, the master that sentinels name, or a cluster",
    unset="local mode, if DATABASE_URL is unset too",
    is_masked=True,
)
INFRASTRUCTURE_REQUIRED = Variable(
    "INFRASTRUCTURE_REQUIRED", yes_or_no(), "true forbids local mode, where all is gone at exit", "false"
)
QUEUE_PREFIX = Variable(
    "QUEUE_PREFIX",
    name(_PREFIX, "1 to 63 letters, digits, dots, dashes and underscores, with or without braces around them"),
    "first part of every BullMQ key; braces keep a queue in one slot of a Redis Cluster, which needs them",
    "{tayho}",
)
QUEUE_CONCURRENCY = Variable(
    "QUEUE_CONCURRENCY",
    whole(1, 1_000, below="a process without a handler does no work", above="one fetch takes at most 1000 deliveries"),
    "handlers at once in this process",
    "16",
)
QUEUE_LOCK_SECONDS = Variable(
    "QUEUE_LOCK_SECONDS",
    whole(
        2,
        3_600,
        below="a lock that short is lost between two renewals",
        above="the work of a crashed replica would wait that long for another",
    ),
    "how long a delivery stays its holder's without renewal; at least twice the outbox poll",
    "30",
)
QUEUE_RECONCILE_SECONDS = Variable(
    "QUEUE_RECONCILE_SECONDS",
    whole(2, 86_400, below="each check reads the delivery from Redis", above="a lost delivery would wait over a day"),
    "when a published delivery is checked again; not below the lock",
    "60",
)
JOB_MAX_ATTEMPTS = Variable(
    "JOB_MAX_ATTEMPTS",
    whole(1, 1_000, below="a job without an attempt never runs", above="a job that fails so often never ends"),
    "attempts of a job that owns no transaction, before it is dead",
    "8",
)
JOB_RETENTION_DAYS = Variable(
    "JOB_RETENTION_DAYS",
    whole(0, 3_650, below="nothing is kept for less than no time", above="0 keeps every job whole for ever"),
    "how long an ended job keeps its request, result and attempts; dead and quarantined ones four times as long; "
    "0 is for ever. Its key stays taken",
    "30",
)
EVIDENCE_RETENTION_DAYS = Variable(
    "EVIDENCE_RETENTION_DAYS",
    whole(0, 3_650, below="nothing is kept for less than no time", above="0 keeps it for ever"),
    "how long is kept who told what about the end of a transaction; never less than a week; 0 is for ever",
    "90",
)
TX_SEAL_RETENTION_DAYS = Variable(
    "TX_SEAL_RETENTION_DAYS",
    whole(
        30, 3_650, below="what it sealed may be asked about for a month", above="take the key out of the ring instead"
    ),
    "how long a journal key is kept after its last seal before `key-retire-check` may pass",
    "30",
)
OUTBOX_POLL_MILLISECONDS = Variable(
    "OUTBOX_POLL_MILLISECONDS",
    whole(10, 60_000, below="polling faster is a busy loop on PostgreSQL", above="jobs would wait over a minute"),
    "how often the outbox is looked at when no notification comes",
    "250",
)
RPC_URL = Variable(
    "RPC_URL",
    endpoint_url(),
    "the only path of writes to the chain",
    need=Need.OUTSIDE_LOCAL_MODE,
    unset="local mode may bring a chain of its own",
    is_masked=True,
)
RPC_READ_URLS = Variable(
    "RPC_READ_URLS",
    endpoint_urls(),
    "endpoints that are read from and that vote; three hosts or more on a live chain with a role that signs",
    unset="RPC_URL",
    is_masked=True,
)
RPC_CIRCUIT_COOLDOWN_MILLISECONDS = Variable(
    "RPC_CIRCUIT_COOLDOWN_MILLISECONDS",
    whole(
        100,
        3_600_000,
        below="a failing endpoint would be asked without a pause",
        above="a recovered endpoint would stay out for over an hour",
    ),
    "how long an opened circuit stays open",
    "10000",
)
CHAIN_ID = Variable(
    "CHAIN_ID",
    whole(1, _CHAIN_ID_MAX, below="zero is no chain (EIP-155)", above="chain ids end there (EIP-2294)"),
    "the expected chain; every endpoint is checked against it",
    str(LOCAL_CHAIN_ID),
    need=Need.OUTSIDE_LOCAL_MODE,
)
ENVIRONMENT = Variable(
    "ENVIRONMENT",
    name(_ENVIRONMENT, "live or another name of 1 to 63 lower-case letters, digits and dashes"),
    "live, where the guards of real money apply, or any other name",
    LOCAL_ENVIRONMENT,
    need=Need.OUTSIDE_LOCAL_MODE,
)
# The names of the two that hold keys end in _VARIABLE, because of the rule that a key is declared in custody alone.
SIGNER_KEYS_VARIABLE = Variable(
    "SIGNER_KEYS", signer_pool(), "the keys of the role's signers; two by default", need=Need.SIGNING, is_masked=True
)
TX_JOURNAL_KEYS_VARIABLE = Variable(
    "TX_JOURNAL_KEYS",
    journal_ring(),
    "the keys that seal signed transactions in the journal, old ones included",
    need=Need.SIGNING,
    is_masked=True,
)
TX_JOURNAL_ACTIVE_KEY_ID = Variable(
    "TX_JOURNAL_ACTIVE_KEY_ID",
    name(_KEY_ID, "a key id of 1 to 32 letters, digits, dots, dashes and underscores"),
    "which of them seals new rows",
    need=Need.SIGNING,
)
TX_RECONCILE_SECONDS = Variable(
    "TX_RECONCILE_SECONDS",
    whole(1, 600, below="no chain makes blocks worth asking for faster", above="receipts would wait over ten minutes"),
    "how often open transactions are compared with the chain",
    "5",
)
TX_CONFIRMATIONS = Variable(
    "TX_CONFIRMATIONS",
    whole(0, 10_000, below="blocks are counted from zero", above="a job would wait for hours after its effect"),
    "blocks on top of a receipt's before it is final; at least 1 on a live chain",
    "12",
)
TX_REORG_LOOKBACK_BLOCKS = Variable(
    "TX_REORG_LOOKBACK_BLOCKS",
    whole(1, 100_000, below="a reorganisation would never be seen", above="every tick would read that many headers"),
    "how far back final receipts are checked again; not below the confirmations",
    "64",
)
TX_STUCK_SECONDS = Variable(
    "TX_STUCK_SECONDS",
    whole(
        1,
        86_400,
        below="a transaction needs one block at least",
        above="a fee that is too low would hold its lane for over a day",
    ),
    "after which a pending transaction may be replaced; not below the reconcile interval",
    "90",
)
TX_FEE_BUMP_BASIS_POINTS = Variable(
    "TX_FEE_BUMP_BASIS_POINTS",
    whole(
        1_000,
        10 * _BASIS_POINTS,
        below="nodes refuse a replacement that raises both fees by less than 10% (1000 basis points)",
        above="more than elevenfold in one step is a slip of units",
    ),
    "how much a replacement raises both fees, at least",
    "1250",
)
TX_MAX_FEE_PER_GAS_WEI = Variable(
    "TX_MAX_FEE_PER_GAS_WEI",
    whole(1, 10**18, below="no chain takes a transaction for nothing", above="a whole coin for each gas is a slip"),
    "the most ever offered for one gas, replacements included",
    need=Need.SIGNING,
)
TX_MAX_REPLACEMENTS = Variable(
    "TX_MAX_REPLACEMENTS",
    whole(0, 100, below="replacements are counted from zero", above="the fee ceiling is long reached by then"),
    "replacements of one transaction",
    "8",
)
SIGNER_LANE_DEPTH = Variable(
    "SIGNER_LANE_DEPTH",
    whole(1, 1_000, below="a lane without room takes no work", above="nodes drop so long a queue of one account"),
    "nonces in flight of one signer before its lane counts as busy",
    "16",
)
BATCH_WINDOW_MILLISECONDS = Variable(
    "BATCH_WINDOW_MILLISECONDS",
    whole(1, 60_000, below="a window without time batches nothing", above="intents would wait over a minute"),
    "how long a relayer gathers intents into one transaction",
    "100",
)
BATCH_MAX_ITEMS = Variable(
    "BATCH_MAX_ITEMS",
    whole(1, 10_000, below="a batch holds one intent at least", above="no block holds so many"),
    "intents in one transaction, at most",
    "64",
)
BATCH_GAS_BUFFER_BASIS_POINTS = Variable(
    "BATCH_GAS_BUFFER_BASIS_POINTS",
    whole(0, 10 * _BASIS_POINTS, below="a buffer only adds", above="more than elevenfold is a slip of units"),
    "what is added to each intent's simulated gas",
    "2000",
)
BATCH_BLOCK_SHARE_BASIS_POINTS = Variable(
    "BATCH_BLOCK_SHARE_BASIS_POINTS",
    whole(1, _BASIS_POINTS, below="no share holds no intent", above="a transaction never exceeds its block"),
    "share of a block's gas that one batch may ask for",
    "2500",
)
BATCH_MAX_GAS = Variable(
    "BATCH_MAX_GAS",
    whole(
        21_000,
        _GAS_LIMIT_MAX,
        below="every transaction costs 21000 gas",
        above="no transaction may have more than 2**24 gas (EIP-7825)",
    ),
    "gas of one batch, at most",
    need=Need.RELAYER,
)
SCAN_SECONDS = Variable(
    "SCAN_SECONDS",
    whole(1, 3_600, below="each look reads the chain", above="work would be found over an hour late"),
    "how often each kind looks for its own work",
    "5",
)
PROTOCOL_ADDRESS = Variable(
    "PROTOCOL_ADDRESS",
    address(),
    "the contract whose intents are taken and carried",
    need=Need.ENGINE,
)
PROTOCOL_MARKETS = Variable(
    "PROTOCOL_MARKETS",
    markets(),
    "the protocol's markets and where their facts come from: see docs/roles.md",
    unset="no fact is posted",
    is_masked=True,
)
PROTOCOL_TREASURY = Variable(
    "PROTOCOL_TREASURY", address(), "the account that revenue is sent to", unset="no revenue is distributed"
)
PROTOCOL_REVENUE_EPOCH_SECONDS = Variable(
    "PROTOCOL_REVENUE_EPOCH_SECONDS",
    whole(1, 31_622_400, below="an epoch lasts a second at least", above="revenue would wait over a year"),
    "length of an epoch of revenue; epochs are counted from 1970",
    "86400",
)
BATCH_EXECUTOR_ADDRESS = Variable(
    "BATCH_EXECUTOR_ADDRESS",
    address(),
    "the contract through which a relayer executes batches of intents; needs PROTOCOL_ADDRESS",
    unset="no intents are relayed",
)
HTTP_BIND = Variable(
    "HTTP_BIND", bind(), "where health and metrics are served; port 0 takes any free one", "127.0.0.1:8080"
)
ENGINE_BIND = Variable(
    "ENGINE_BIND", bind(), "where the role engine serves the public; port 0 takes any free one", "127.0.0.1:8081"
)
ENGINE_IDENTITY_KEY = Variable(
    "ENGINE_IDENTITY_KEY",
    pseudonyms(),
    "the key of the hash under which clients are counted in Redis; the same for every engine",
    need=Need.ENGINE,
    is_masked=True,
)
ENGINE_TRUSTED_PROXIES = Variable(
    "ENGINE_TRUSTED_PROXIES",
    networks(),
    "proxies in front of the engine, whose X-Forwarded-For tells who the client is",
    unset="none: a client is who connects",
)
ENGINE_SUBMISSIONS_PER_MINUTE = Variable(
    "ENGINE_SUBMISSIONS_PER_MINUTE",
    whole(1, 1_000_000, below="an engine that takes nothing needs no process", above="a limit that high limits nobody"),
    "intents that one client may submit in a minute, to all engines together",
    "120",
)
ENGINE_STATUSES_PER_MINUTE = Variable(
    "ENGINE_STATUSES_PER_MINUTE",
    whole(1, 1_000_000, below="who submits must be able to ask", above="a limit that high limits nobody"),
    "statuses that one client may ask for in a minute, of all engines together; an event stream counts as one",
    "1200",
)
INSTANCE_ID = Variable(
    "INSTANCE_ID",
    name(_NAME, "1 to 128 letters, digits, dots, dashes and underscores"),
    "the name of this replica in lists, logs and drain commands",
    unset="random",
)
DRAIN_SECONDS = Variable(
    "DRAIN_SECONDS",
    whole(1, 3_600, below="handlers need time to end", above="no supervisor waits over an hour for a stop"),
    "how long handlers may go on after SIGTERM",
    "60",
)
LOG_FORMAT = Variable(
    "LOG_FORMAT", choice("json", "plain"), "form of the log lines", unset="json on a pipe, plain on a terminal"
)

# What `tayho db migrate` makes logins of and `tayho db qualify` connects as. No process reads these: each has its own
# as DATABASE_URL.
RUNTIME_DATABASE_URL = Variable(
    "RUNTIME_DATABASE_URL",
    database_url(),
    "as whom every process but the auditor and the engine connects",
    is_masked=True,
)
ENGINE_DATABASE_URL = Variable("ENGINE_DATABASE_URL", database_url(), "as whom the engine connects", is_masked=True)
AUDITOR_DATABASE_URL = Variable("AUDITOR_DATABASE_URL", database_url(), "as whom the auditor connects", is_masked=True)
IDENTITY_VARIABLES: Mapping[str, Variable[str]] = {
    "runtime": RUNTIME_DATABASE_URL,
    "engine": ENGINE_DATABASE_URL,
    "auditor": AUDITOR_DATABASE_URL,
}

# In the order of the table and of `tayho config check`. Any: each variable has its own type of value.
VARIABLES: tuple[Variable[Any], ...] = (
    DATABASE_URL,
    DATABASE_POOL_SIZE,
    REDIS_URL,
    INFRASTRUCTURE_REQUIRED,
    QUEUE_PREFIX,
    QUEUE_CONCURRENCY,
    QUEUE_LOCK_SECONDS,
    QUEUE_RECONCILE_SECONDS,
    JOB_MAX_ATTEMPTS,
    JOB_RETENTION_DAYS,
    EVIDENCE_RETENTION_DAYS,
    TX_SEAL_RETENTION_DAYS,
    OUTBOX_POLL_MILLISECONDS,
    RPC_URL,
    RPC_READ_URLS,
    RPC_CIRCUIT_COOLDOWN_MILLISECONDS,
    CHAIN_ID,
    ENVIRONMENT,
    SIGNER_KEYS_VARIABLE,
    TX_JOURNAL_KEYS_VARIABLE,
    TX_JOURNAL_ACTIVE_KEY_ID,
    TX_RECONCILE_SECONDS,
    TX_CONFIRMATIONS,
    TX_REORG_LOOKBACK_BLOCKS,
    TX_STUCK_SECONDS,
    TX_FEE_BUMP_BASIS_POINTS,
    TX_MAX_FEE_PER_GAS_WEI,
    TX_MAX_REPLACEMENTS,
    SIGNER_LANE_DEPTH,
    BATCH_WINDOW_MILLISECONDS,
    BATCH_MAX_ITEMS,
    BATCH_GAS_BUFFER_BASIS_POINTS,
    BATCH_BLOCK_SHARE_BASIS_POINTS,
    BATCH_MAX_GAS,
    SCAN_SECONDS,
    PROTOCOL_ADDRESS,
    PROTOCOL_MARKETS,
    PROTOCOL_TREASURY,
    PROTOCOL_REVENUE_EPOCH_SECONDS,
    BATCH_EXECUTOR_ADDRESS,
    HTTP_BIND,
    ENGINE_BIND,
    ENGINE_IDENTITY_KEY,
    ENGINE_TRUSTED_PROXIES,
    ENGINE_SUBMISSIONS_PER_MINUTE,
    ENGINE_STATUSES_PER_MINUTE,
    INSTANCE_ID,
    DRAIN_SECONDS,
    LOG_FORMAT,
)
# Not read at all in a process whose roles sign nothing.
KEY_VARIABLES: tuple[Variable[Any], ...] = (SIGNER_KEYS_VARIABLE, TX_JOURNAL_KEYS_VARIABLE)

"""What a process runs with: the result of reading the environment, fixed for the life of the process."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING

from attrs import field, frozen

from tayho.kernel.address import Address
from tayho.kernel.markets import Market

if TYPE_CHECKING:
    # Importing custody costs the signing libraries, which a role that does not sign never needs.
    from tayho.custody.module import JournalKeys, Pseudonyms, SignerKeys


@frozen
class Bind:
    """Where to listen. Port 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@frozen
class Effective:
    """One variable as it came out: its value for a person to read, and where that was taken from."""

    name: str
    shown: str
    source: str


@frozen(kw_only=True, eq=False)
class Settings:
    """Every setting of the process; the names are the variables' own, the units stand in the names.

    Its repr shows no secret: URLs may carry passwords and are left out of it, keys never print.
    """

    roles: tuple[str, ...]
    # The one role of the process that owns a pool of signers, if any does.
    signing_role: str | None
    # Invariant: true exactly if both URLs below are None: the process brings its own throw-away servers.
    is_local_mode: bool
    database_url: str | None = field(repr=False)
    database_pool_size: int
    redis_url: str | None = field(repr=False)
    queue_prefix: str
    queue_concurrency: int
    queue_lock_seconds: int
    queue_reconcile_seconds: int
    job_max_attempts: int
    # 0 keeps every job whole.
    job_retention_days: int
    # 0 keeps all of it.
    evidence_retention_days: int
    tx_seal_retention_days: int
    outbox_poll_milliseconds: int
    # None in local mode only, and then there are no read URLs either.
    rpc_url: str | None = field(repr=False)
    rpc_read_urls: tuple[str, ...] = field(repr=False)
    rpc_circuit_cooldown_milliseconds: int
    chain_id: int
    environment: str
    # Both None unless a role signs.
    signer_keys: SignerKeys | None
    journal_keys: JournalKeys | None
    tx_reconcile_seconds: int
    tx_confirmations: int
    tx_reorg_lookback_blocks: int
    tx_stuck_seconds: int
    tx_fee_bump_basis_points: int
    # None only where no role signs.
    tx_max_fee_per_gas_wei: int | None
    tx_max_replacements: int
    signer_lane_depth: int
    batch_window_milliseconds: int
    batch_max_items: int
    batch_gas_buffer_basis_points: int
    batch_block_share_basis_points: int
    # None only where no role is a relayer.
    batch_max_gas: int | None
    # The contract whose intents this deployment takes and carries.
    protocol_address: Address | None
    scan_seconds: int
    protocol_markets: Mapping[str, Market] = field(repr=False)
    protocol_treasury: Address | None
    protocol_revenue_epoch_seconds: int
    # None where no intents are relayed.
    batch_executor_address: Address | None
    http_bind: Bind
    engine_bind: Bind
    # None only where no role is the engine.
    engine_identity: Pseudonyms | None
    # Whose X-Forwarded-For is believed. None: only who connects is known.
    engine_trusted_proxies: tuple[IPv4Network | IPv6Network, ...]
    engine_submissions_per_minute: int
    engine_statuses_per_minute: int
    instance_id: str
    drain_seconds: int
    # "json", "plain", or None: decided by whether the log goes to a terminal.
    log_format: str | None
    # What is allowed and probably not meant, one sentence each.
    warnings: tuple[str, ...]
    effective: tuple[Effective, ...] = field(repr=False)

    @property
    def is_live(self) -> bool:
        """Whether the guards of a chain with real money on it apply."""
        return self.environment == "live"

    def shown(self) -> list[tuple[str, str, str]]:
        """The effective configuration, secrets masked: name, value and source of each variable, in table order."""
        return [(each.name, each.shown, each.source) for each in self.effective]

"""The settings from what was read, once nothing is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tayho.config import variables as table
from tayho.config.reading import Texts
from tayho.config.rules import Situation
from tayho.config.secret_kinds import shown_journal_keys
from tayho.config.settings import Effective, Settings
from tayho.config.values import Values
from tayho.config.variable import Variable

UNSET = "(unset)"


def settings_of(values: Values, texts: Texts, situation: Situation, warnings: tuple[str, ...]) -> Settings:
    """Every variable under its name; the rules have seen them all."""
    return Settings(
        roles=situation.roles,
        signing_role=next(iter(situation.signing_roles), None),
        is_local_mode=situation.is_local_mode,
        database_url=values.find(table.DATABASE_URL),
        database_pool_size=values[table.DATABASE_POOL_SIZE],
        redis_url=values.find(table.REDIS_URL),
        queue_prefix=values[table.QUEUE_PREFIX],
        queue_concurrency=values[table.QUEUE_CONCURRENCY],
        queue_lock_seconds=values[table.QUEUE_LOCK_SECONDS],
        queue_reconcile_seconds=values[table.QUEUE_RECONCILE_SECONDS],
        job_max_attempts=values[table.JOB_MAX_ATTEMPTS],
        job_retention_days=values[table.JOB_RETENTION_DAYS],
        evidence_retention_days=values[table.EVIDENCE_RETENTION_DAYS],
        tx_seal_retention_days=values[table.TX_SEAL_RETENTION_DAYS],
        outbox_poll_milliseconds=values[table.OUTBOX_POLL_MILLISECONDS],
        rpc_url=values.find(table.RPC_URL),
        rpc_read_urls=values.find(table.RPC_READ_URLS) or (),
        rpc_circuit_cooldown_milliseconds=values[table.RPC_CIRCUIT_COOLDOWN_MILLISECONDS],
        chain_id=values[table.CHAIN_ID],
        environment=values[table.ENVIRONMENT],
        signer_keys=values.find(table.SIGNER_KEYS_VARIABLE),
        journal_keys=values.journal_keys,
        tx_reconcile_seconds=values[table.TX_RECONCILE_SECONDS],
        tx_confirmations=values[table.TX_CONFIRMATIONS],
        tx_reorg_lookback_blocks=values[table.TX_REORG_LOOKBACK_BLOCKS],
        tx_stuck_seconds=values[table.TX_STUCK_SECONDS],
        tx_fee_bump_basis_points=values[table.TX_FEE_BUMP_BASIS_POINTS],
        tx_max_fee_per_gas_wei=values.find(table.TX_MAX_FEE_PER_GAS_WEI),
        tx_max_replacements=values[table.TX_MAX_REPLACEMENTS],
        signer_lane_depth=values[table.SIGNER_LANE_DEPTH],
        batch_window_milliseconds=values[table.BATCH_WINDOW_MILLISECONDS],
        batch_max_items=values[table.BATCH_MAX_ITEMS],
        batch_gas_buffer_basis_points=values[table.BATCH_GAS_BUFFER_BASIS_POINTS],
        batch_block_share_basis_points=values[table.BATCH_BLOCK_SHARE_BASIS_POINTS],
        batch_max_gas=values.find(table.BATCH_MAX_GAS),
        protocol_address=values.find(table.PROTOCOL_ADDRESS),
        scan_seconds=values[table.SCAN_SECONDS],
        protocol_markets=values.find(table.PROTOCOL_MARKETS) or {},
        protocol_treasury=values.find(table.PROTOCOL_TREASURY),
        protocol_revenue_epoch_seconds=values[table.PROTOCOL_REVENUE_EPOCH_SECONDS],
        batch_executor_address=values.find(table.BATCH_EXECUTOR_ADDRESS),
        http_bind=values[table.HTTP_BIND],
        engine_bind=values[table.ENGINE_BIND],
        engine_identity=values.find(table.ENGINE_IDENTITY_KEY),
        engine_trusted_proxies=values.find(table.ENGINE_TRUSTED_PROXIES) or (),
        engine_submissions_per_minute=values[table.ENGINE_SUBMISSIONS_PER_MINUTE],
        engine_statuses_per_minute=values[table.ENGINE_STATUSES_PER_MINUTE],
        instance_id=values[table.INSTANCE_ID],
        drain_seconds=values[table.DRAIN_SECONDS],
        log_format=values.find(table.LOG_FORMAT),
        warnings=warnings,
        effective=tuple(_effective(values, texts, situation)),
    )


def _effective(values: Values, texts: Texts, situation: Situation) -> Iterator[Effective]:
    for variable in table.VARIABLES:
        text = texts.found.get(variable.name)
        if text is not None and variable in table.KEY_VARIABLES and situation.holds_no_key:
            yield Effective(variable.name, "(not looked at)", text.source)
        elif text is not None:
            yield Effective(variable.name, _shown(values, variable), text.source)
        elif values.find(variable) is None:
            yield Effective(variable.name, UNSET, variable.unset or "not needed")
        else:
            yield Effective(variable.name, _shown(values, variable), variable.unset or "default")


def _shown(values: Values, variable: Variable[Any]) -> str:
    if variable is table.TX_JOURNAL_KEYS_VARIABLE and values.journal_keys is not None:
        return shown_journal_keys(values.journal_keys)
    return variable.kind.shown(values[variable])

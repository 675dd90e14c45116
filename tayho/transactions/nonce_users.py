"""Which transaction used a nonce up, on a majority's word and in a constant number of round trips (TX-3, TX-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rpc import methods
from rpc.asked_together import Asked
from rpc.truth import ChainTruth
from rpc.values import Header
from tayho.kernel.address import Address
from tayho.transactions.superseding_rules import Bracket, user_of
from tayho.transactions.types import Foreign, Ours, Unidentified, UsedUp

# Heights that are asked at in one round, for each lineage; and rounds: a thousand blocks are three of them.
PROBES_MAX = 16
ROUNDS_MAX = 6


class NonceUsers:
    """Finds the block after which an account's count had risen above a nonce, and what that block has at it."""

    def __init__(self, truth: ChainTruth, lookback: int) -> None:
        self._truth = truth
        self._lookback = lookback

    async def identified(
        self, lineages: Sequence[UsedUp], head: Header, final: Header
    ) -> dict[UsedUp, Foreign | Ours | Unidentified]:
        """The transaction at each nonce, as a majority has it in a canonical block of the lookback window.

        The nonces are used up by the `final` block. Raises RpcError.
        """
        blocks = await self._blocks_of_use(lineages, head, final)
        wanted = {header.hash: header for header in blocks.values() if isinstance(header, Header)}
        contents = Asked({block_hash: methods.block_transactions(block_hash) for block_hash in wanted})
        await self._truth.ask(contents)
        found: dict[UsedUp, Foreign | Ours | Unidentified] = {}
        for lineage, header in blocks.items():
            if isinstance(header, Unidentified):
                found[lineage] = header
                continue
            transactions = contents.agreed.get(header.hash)
            if transactions is None:
                found[lineage] = Unidentified(f"the transactions of block {header.number} are not agreed")
            else:
                found[lineage] = user_of(lineage, transactions, header.number, header.hash)
        return found

    async def _blocks_of_use(
        self, lineages: Sequence[UsedUp], head: Header, final: Header
    ) -> dict[UsedUp, Header | Unidentified]:
        """The block in which each nonce was used, for all lineages together in a few rounds."""
        floor = max(head.number - self._lookback, 0)
        brackets = dict.fromkeys(lineages, Bracket(min(floor, final.number - 1), final.number))
        found: dict[UsedUp, Header | Unidentified] = {}
        for _ in range(ROUNDS_MAX):
            open_ones = {one: bracket for one, bracket in brackets.items() if not bracket.is_closed}
            if not open_ones:
                break
            counts = await self._counts(open_ones)
            for lineage, bracket in open_ones.items():
                narrowed = bracket.narrowed(lineage.nonce, counts.get(lineage.signer, {}))
                if narrowed is None:
                    del brackets[lineage]
                    found[lineage] = Unidentified(f"the nonce was used before block {bracket.below}")
                elif narrowed == bracket:
                    del brackets[lineage]
                    found[lineage] = Unidentified("the account's counts are not agreed: their states may be pruned")
                else:
                    brackets[lineage] = narrowed
        headers = await self._truth.heads.headers_at(sorted({bracket.above for bracket in brackets.values()}))
        for lineage, bracket in brackets.items():
            header = headers[bracket.above]
            if bracket.is_closed and isinstance(header, Header):
                found[lineage] = header
            else:
                found[lineage] = Unidentified("the block of its use is not agreed")
        return found

    async def _counts(self, brackets: Mapping[UsedUp, Bracket]) -> dict[Address, dict[int, int]]:
        """Each account's agreed count after each probed height, in one round."""
        wanted = {
            (lineage.signer, height) for lineage, bracket in brackets.items() for height in bracket.probes(PROBES_MAX)
        }
        headers = await self._truth.heads.headers_at(sorted({height for _, height in wanted}))
        asked = Asked(
            {
                signer.value + header.hash: methods.transaction_count(signer.value, header.hash)
                for signer, height in wanted
                if isinstance(header := headers[height], Header)
            }
        )
        await self._truth.ask(asked)
        counts: dict[Address, dict[int, int]] = {}
        for signer, height in wanted:
            header = headers[height]
            count = asked.agreed.get(signer.value + header.hash) if isinstance(header, Header) else None
            if count is not None:
                counts.setdefault(signer, {})[height] = count
        return counts

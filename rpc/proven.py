"""Reads that rest on one agreed header: receipts and accounts with proof, whoever tells them (RPC-11).

One endpoint's answer is enough once it is proven against the block; a majority is needed for the header alone. An
answer that the block refutes is a lie, reported with what gave it away. Where no endpoint serves the proof, votes
decide as before, without those whose answer was refuted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from rpc import methods, proofs
from rpc.errors import RpcError
from rpc.member import Member
from rpc.proof_errors import NotProven, ProofRefuted, Unprovable
from rpc.provenance import Agreement, Proven, Refutation, Silenced, Voting
from rpc.reads import Call
from rpc.receipt_proofs import Recover
from rpc.rendering import render
from rpc.values import AccountProof, Header, Receipt

T = TypeVar("T")

Prove: TypeAlias = Callable[[Member, Header], Awaitable[T]]
Vote: TypeAlias = Callable[[Voting], Awaitable[tuple[T, tuple[Agreement[object], ...]]]]


class ProvenReads:
    """Receipts, nonces and balances at a block whose hash is agreed, from the first endpoint that can prove them.

    Invariant: nothing is returned that is neither proven against a verified header nor agreed by a majority of the
    configured endpoints without those that were caught lying.
    """

    def __init__(
        self,
        members: Sequence[Member],
        voting: Callable[[Sequence[Member]], Voting],
        recover: Recover,
        on_refuted: Callable[[Refutation], None] | None = None,
    ) -> None:
        """`voting` makes a quorum of members (`rpc.quorum.Quorum` does). `on_refuted` charges and keeps each lie."""
        self._members = tuple(members)
        self._voting = voting
        self._quorum = voting(self._members)
        self._recover = recover
        self._on_refuted = on_refuted
        self._first = 0

    async def receipts(
        self, block_hash: bytes, transaction_hashes: Sequence[bytes]
    ) -> Proven[dict[bytes, Receipt | None]]:
        """The receipts of these transactions as far as they are in the block; None for one that is not.

        Raises NotProven where the block is not known or is refuted, and what the quorum raises without a majority.
        """
        wanted = tuple(dict.fromkeys(transaction_hashes))
        search = _Search(f"receipts of block 0x{block_hash.hex()}", block_hash, "eth_getBlockReceipts")

        async def prove(member: Member, header: Header) -> dict[bytes, Receipt | None]:
            return await self._proven_receipts(member, header, wanted, search)

        async def vote(quorum: Voting) -> tuple[dict[bytes, Receipt | None], tuple[Agreement[object], ...]]:
            agreements = [await quorum.agreed(methods.transaction_receipt(each)) for each in wanted]
            told = [agreement.value for agreement in agreements]
            here = [receipt if receipt and receipt.block_hash == block_hash else None for receipt in told]
            return dict(zip(wanted, here, strict=True)), tuple(agreements)

        return await self._first_proof(search, prove, vote)

    async def account(self, address: bytes, block_hash: bytes, slots: Sequence[int] = ()) -> Proven[AccountProof]:
        """The account after the block, with storage at `slots`. There are no votes on this: NotProven where none is."""
        search = _Search(_named(address, block_hash), block_hash, "eth_getProof")

        async def prove(member: Member, header: Header) -> AccountProof:
            return await self._proven_account(member, header, address, slots, search)

        return await self._first_proof(search, prove, None)

    async def nonce(self, address: bytes, block_hash: bytes) -> Proven[int]:
        """The account's next nonce after the block. Raises as `receipts`."""
        return await self._number(
            address, block_hash, lambda proof: proof.nonce, methods.transaction_count(address, block_hash)
        )

    async def balance_wei(self, address: bytes, block_hash: bytes) -> Proven[int]:
        """The account's balance after the block. Raises as `receipts`."""
        return await self._number(
            address, block_hash, lambda proof: proof.balance_wei, methods.balance(address, block_hash)
        )

    async def _number(
        self, address: bytes, block_hash: bytes, of: Callable[[AccountProof], int], call: Call[int]
    ) -> Proven[int]:
        search = _Search(_named(address, block_hash), block_hash, "eth_getProof")

        async def prove(member: Member, header: Header) -> int:
            return of(await self._proven_account(member, header, address, (), search))

        async def vote(quorum: Voting) -> tuple[int, tuple[Agreement[object], ...]]:
            agreement = await quorum.agreed(call)
            return agreement.value, (agreement,)

        return await self._first_proof(search, prove, vote)

    async def _first_proof(self, search: _Search, prove: Prove[T], vote: Vote[T] | None) -> Proven[T]:
        """Ask one endpoint after the other for a proof, beginning with the last that gave one; then vote."""
        agreement = await self._quorum.agreed(methods.block_by_hash(search.block_hash))
        if agreement.value is None:
            raise NotProven(search.subject, ("a majority does not know the block",))
        header = await self._verified(agreement.value, search)
        if header is not None:
            for place in self._in_turn():
                proof = await self._attempt(self._members[place], lambda member: prove(member, header), search)
                if proof is not None:
                    self._first = place
                    return Proven(
                        proof[0], self._members[place].shown, (agreement,), tuple(search.refuted), tuple(search.reasons)
                    )
        if vote is None:
            raise NotProven(search.subject, tuple(search.reasons))
        try:
            value, votes = await vote(self._trusted(search))
        except RpcError as error:
            error.add_note(f"{search.subject}: votes decide, because nothing is proven ({'; '.join(search.reasons)})")
            raise
        return Proven(value, None, (agreement, *votes), tuple(search.refuted), tuple(search.reasons))

    def _in_turn(self) -> list[int]:
        return [self._first, *(place for place in range(len(self._members)) if place != self._first)]

    async def _verified(self, agreed: Header, search: _Search) -> Header | None:
        """The header that makes the block's hash: the agreed one, or else any; None where nobody tells one.

        Then votes decide: it may be a chain, or a fork, whose headers we cannot hash.
        """
        try:
            proofs.verify_header(agreed)
        except (ProofRefuted, Unprovable) as error:
            search.reasons.append(str(error))
        else:
            return agreed
        for member in self._members:
            try:
                header = await member.ask(methods.block_by_hash(search.block_hash))
                if header is not None and header != agreed:
                    proofs.verify_header(header)
                    return header
            except RpcError as error:
                search.reasons.append(f"{member.shown}: {error}")
        return None

    async def _attempt(
        self, member: Member, prove: Callable[[Member], Awaitable[T]], search: _Search
    ) -> tuple[T] | None:
        """What the member proves, in a tuple; None where it proves nothing. A lie is reported here."""
        search.told = None
        try:
            return (await prove(member),)
        except ProofRefuted as error:
            evidence = search.caught(member.shown, error)
            if self._on_refuted is not None:
                self._on_refuted(evidence)
        except RpcError as error:
            search.reasons.append(f"{member.shown}: {error}")
        return None

    def _trusted(self, search: _Search) -> Voting:
        """The quorum, where a proven liar has no voice: the majority is still that of the configured."""
        if not search.refuted:
            return self._quorum
        return self._voting([Silenced(each) if each.shown in search.refuted else each for each in self._members])

    async def _proven_receipts(
        self, member: Member, header: Header, wanted: Sequence[bytes], search: _Search
    ) -> dict[bytes, Receipt | None]:
        # One after the other: whether the second is worth its size shows with the first.
        receipts = await member.ask(methods.block_receipts(header.hash))
        transactions = await member.ask(methods.block_transactions(header.hash)) if receipts is not None else None
        if receipts is None or transactions is None:
            raise Unprovable("the endpoint does not know the block")
        search.told = [receipt for receipt in receipts if receipt.transaction_hash in wanted]
        proofs.verify_receipts(header, receipts)
        proofs.verify_transactions(header, transactions)
        found: dict[bytes, Receipt | None] = dict.fromkeys(wanted)
        for receipt, transaction in zip(receipts, transactions, strict=True):
            if transaction.hash in found:
                proofs.verify_receipt(header, receipt, transaction, self._recover)
                found[transaction.hash] = receipt
        return found

    async def _proven_account(
        self, member: Member, header: Header, address: bytes, slots: Sequence[int], search: _Search
    ) -> AccountProof:
        proof = await member.ask(methods.account_proof(address, slots, header.hash))
        search.told = proof
        proofs.verify_account(header.state_root, address, proof, slots)
        return proof


class _Search:
    """One question on its way from endpoint to endpoint."""

    def __init__(self, subject: str, block_hash: bytes, method: str) -> None:
        self.subject = subject
        self.block_hash = block_hash
        self.method = method
        self.told: object = None
        self.reasons: list[str] = []
        self.refuted: list[str] = []

    def caught(self, endpoint: str, error: ProofRefuted) -> Refutation:
        """Note that the endpoint lied. The evidence of it."""
        self.refuted.append(endpoint)
        self.reasons.append(f"{endpoint}: {error}")
        return Refutation(endpoint, self.method, self.block_hash, error, render(self.told))


def _named(address: bytes, block_hash: bytes) -> str:
    return f"account 0x{address.hex()} at block 0x{block_hash.hex()}"

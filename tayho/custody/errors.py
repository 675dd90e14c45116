"""What custody refuses, one class each. No message holds a key, a signed transaction or a ciphertext."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from tayho.custody.types import KeyProblem, Refusal, SealBinding
from tayho.kernel.address import Address


class CustodyError(Exception):
    """Base of every answer by which custody declines."""


class KeyWiped(CustodyError):
    """The key material was used after its scope had ended. A bug of the caller: custody closes last."""

    def __init__(self) -> None:
        super().__init__("the key material was wiped; custody is used after it was closed")


class KeysRefused(CustodyError):
    """A text of keys cannot be used. `problems` holds every one found, each naming its entry and never its content."""

    def __init__(self, problems: Sequence[KeyProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


class SessionKeyRefused(CustodyError):
    """The bytes are no secp256k1 key. The text says nothing of them."""

    def __init__(self) -> None:
        super().__init__("a session key is 32 bytes, not zero and below the order of secp256k1: make another")


class UnknownSigner(CustodyError):
    """This process holds no key of that address."""

    def __init__(self, signer: Address) -> None:
        self.signer = signer
        super().__init__(f"no key of signer {signer} here: add it to SIGNER_KEYS or run a replica that holds it")


class SigningRefused(CustodyError):
    """The request breaks rules of signing; nothing was signed. `refusals` holds every broken rule."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__("not signed: " + "; ".join(str(refusal) for refusal in self.refusals))


class SigningFailed(CustodyError):
    """The signing library raised on a request that had passed validation.

    Raised without a cause on purpose: the library's frames hold the key, and a renderer of locals would print it.
    """

    def __init__(self, signer: Address, nonce: int, library_error: str) -> None:
        self.library_error = library_error
        super().__init__(f"signing nonce {nonce} of {signer} failed inside the library: {library_error}")


class SignatureMismatch(CustodyError):
    """The signed bytes do not say what was asked, or another key signed them. They were thrown away."""

    def __init__(self, signer: Address, nonce: int, differs: Sequence[str]) -> None:
        self.differs = tuple(differs)
        super().__init__(
            f"the signed bytes for nonce {nonce} of {signer} differ from the request in {', '.join(self.differs)}; "
            "they were discarded: check that every key stands under its own address"
        )


class UnknownKeyId(CustodyError):
    """The row was sealed under a key that this process does not hold."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        super().__init__(f"journal key {key_id!r} is not in TX_JOURNAL_KEYS: put it back to open rows sealed under it")


class SealFault(Enum):
    """How a sealed row failed to open."""

    MALFORMED = "its nonce or ciphertext has an impossible length"
    NOT_AUTHENTIC = "the ciphertext, its key id or the row it stands in was changed"
    HASH_DIFFERS = "the opened bytes do not have the row's transaction hash"
    UNDECODABLE = "the opened bytes are no EIP-1559 transaction that custody signs"
    ROW_DIFFERS = "the opened transaction is not the row's"


class SealBroken(CustodyError):
    """A sealed row was tampered with or swapped. Nothing of it may be broadcast; the row needs an operator."""

    def __init__(self, fault: SealFault, binding: SealBinding, differs: Sequence[str] = ()) -> None:
        self.fault = fault
        self.binding = binding
        self.differs = tuple(differs)
        named = f" ({', '.join(self.differs)})" if self.differs else ""
        super().__init__(
            f"the sealed transaction of chain {binding.chain_id}, signer {binding.signer}, nonce {binding.nonce} "
            f"is broken: {fault.value}{named}"
        )

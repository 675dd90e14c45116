"""Sealing signed transactions into the journal's rows, and opening them again (TX-2)."""

from __future__ import annotations

import os

from Crypto.Cipher import AES
from Crypto.Cipher._mode_gcm import GcmMode

from tayho.custody.encoding import decode, transaction_hash
from tayho.custody.errors import SealBroken, SealFault, UnknownKeyId
from tayho.custody.key_material import KeyMaterial
from tayho.custody.key_rings import JournalKeys
from tayho.custody.types import SealBinding, SealedTransaction, Undecodable
from tayho.kernel.call_hash import call_hash
from tayho.kernel.opaque import Opaque

_FORMAT = b"tayho.journal.v1"
_CIPHER_NONCE_BYTES = 12  # 96 bits, the length GCM uses as it is (NIST SP 800-38D, 8.2)
_TAG_BYTES = 16


class JournalSeal:
    """AES-256-GCM with a fresh random nonce per seal, bound to the row by associated data.

    Random 96-bit nonces bound one key's use: replace the active key well before 2**32 seals under it (NIST SP 800-38D,
    8.3). Old keys stay in the ring for as long as rows under them may be opened.
    """

    def __init__(self, keys: JournalKeys) -> None:
        self._keys = keys

    def seal(self, raw: Opaque, binding: SealBinding) -> SealedTransaction:
        """Seal under the active key."""
        key_id = self._keys.active_id
        cipher_nonce = os.urandom(_CIPHER_NONCE_BYTES)
        cipher = _cipher(self._keys.keys[key_id], cipher_nonce, _associated_data(key_id, binding))
        ciphertext, tag = cipher.encrypt_and_digest(raw.reveal())
        return SealedTransaction(key_id, cipher_nonce, ciphertext + tag)

    def unseal(self, sealed: SealedTransaction, binding: SealBinding) -> Opaque:
        """Open under whichever known key sealed it, and hold what comes out against the row.

        Raises UnknownKeyId, and SealBroken naming the row and the fault: a changed ciphertext, key id or row does not
        authenticate; bytes of another hash, chain, signer, nonce or call are caught even when properly sealed.
        """
        material = self._keys.keys.get(sealed.key_id)
        if material is None:
            raise UnknownKeyId(sealed.key_id)
        if len(sealed.cipher_nonce) != _CIPHER_NONCE_BYTES or len(sealed.ciphertext) <= _TAG_BYTES:
            raise SealBroken(SealFault.MALFORMED, binding)
        raw = _opened(material, sealed, binding)
        if raw is None:
            raise SealBroken(SealFault.NOT_AUTHENTIC, binding)
        if transaction_hash(raw) != binding.tx_hash:
            raise SealBroken(SealFault.HASH_DIFFERS, binding)
        _check_row(raw, binding)
        return raw


def _opened(material: KeyMaterial, sealed: SealedTransaction, binding: SealBinding) -> Opaque | None:
    cipher = _cipher(material, sealed.cipher_nonce, _associated_data(sealed.key_id, binding))
    ciphertext, tag = sealed.ciphertext[:-_TAG_BYTES], sealed.ciphertext[-_TAG_BYTES:]
    try:
        return Opaque(cipher.decrypt_and_verify(ciphertext, tag))
    except ValueError:
        # The cipher's own frame holds what it decrypted before it checked; its error must not travel on.
        return None


def _check_row(raw: Opaque, binding: SealBinding) -> None:
    opened = decode(raw)
    if isinstance(opened, Undecodable):
        raise SealBroken(SealFault.UNDECODABLE, binding, (opened.why,))
    of_row = {
        "chain_id": opened.chain_id == binding.chain_id,
        "signer": opened.signer == binding.signer,
        "nonce": opened.nonce == binding.nonce,
        "call": call_hash(opened.chain_id, opened.to, opened.value_wei, opened.data) == binding.call_hash,
    }
    differs = tuple(name for name, same in of_row.items() if not same)
    if differs:
        raise SealBroken(SealFault.ROW_DIFFERS, binding, differs)


def _cipher(material: KeyMaterial, cipher_nonce: bytes, associated_data: bytes) -> GcmMode:
    with material.revealed() as octets:
        cipher = AES.new(  # pyright: ignore[reportUnknownMemberType]
            octets, AES.MODE_GCM, nonce=cipher_nonce, mac_len=_TAG_BYTES
        )
    cipher.update(associated_data)
    return cipher


def _associated_data(key_id: str, binding: SealBinding) -> bytes:
    """Length-prefixed, so that no two rows can spell the same bytes with their borders moved."""
    parts = (
        _FORMAT,
        key_id.encode(),
        binding.chain_id.to_bytes(32, "big"),
        binding.signer.value,
        binding.nonce.to_bytes(8, "big"),
        binding.call_hash,
        binding.tx_hash,
    )
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)

"""Keys held outside custody, one of each kind of declaration."""

from attrs import frozen


@frozen
class Settings:
    """Configuration."""

    mnemonic: str  # breaks ARC-3
    signer_keys: tuple[str, ...]  # breaks ARC-3
    private_key: "KeyMaterial"  # breaks ARC-3

    @property
    def signing_key(self) -> bytes:  # breaks ARC-3
        return b""


def sign(webhook_secret: str) -> None:  # breaks ARC-3
    seed = webhook_secret.encode()  # breaks ARC-3
    for master_key in [seed]:  # breaks ARC-3
        print(master_key)

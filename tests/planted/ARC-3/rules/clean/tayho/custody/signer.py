"""Keys inside custody, under their type."""

from tayho.custody.key_material import KeyMaterial


class Signer:
    """A signer."""

    def __init__(self, private_key: KeyMaterial, seeds: "list[KeyMaterial]") -> None:
        self.private_key = private_key
        self.seeds = seeds

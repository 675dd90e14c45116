"""Keys inside custody without their type."""


class Signer:
    """A signer."""

    def __init__(self, private_key: bytes) -> None:  # breaks ARC-3
        self.private_key = private_key
        with open("key") as seed:  # breaks ARC-3
            print(seed)

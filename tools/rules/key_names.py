"""Which names bear a key or a secret.

The naming rule: split into words at underscores, a name bears a key when it

- holds the word secret, seed, mnemonic, passphrase or privkey (or its plural), or
- holds `private`, `signing`, `signer`, `master`, `data`, `sealing`, `encryption` or `journal` beside `key` or `keys`,

unless its last word says that it is only *about* one: an id, a name, a file, a count, … (`NOT_THE_KEY`).
"""

from itertools import pairwise

from tools.rules.names import words

SECRET_WORDS = frozenset({"secret", "seed", "mnemonic", "passphrase", "privkey"})
KEY_OWNERS = frozenset({"private", "signing", "signer", "master", "data", "sealing", "encryption", "journal"})
NOT_THE_KEY = frozenset(
    {"id", "name", "file", "path", "env", "variable", "kind", "type", "count", "length", "size", "bytes", "version"}
    | {"address", "addresses", "digest", "reference", "index", "error", "word", "masked"}
)


def bears_key(identifier: str) -> bool:
    """Whether a variable, field or parameter of this name must be key material."""
    parts = words(identifier)
    singular = [part.removesuffix("s") for part in parts]
    if not parts or parts[-1] in NOT_THE_KEY or singular[-1] in NOT_THE_KEY:
        return False
    return any(part in SECRET_WORDS for part in singular) or any(
        owner in KEY_OWNERS and key == "key" for owner, key in pairwise(singular)
    )

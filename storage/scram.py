"""The SCRAM-SHA-256 verifier of a password, computed here: the server never sees the password itself (RFC 5802)."""

from base64 import b64encode
from hashlib import pbkdf2_hmac, sha256
from hmac import digest
from typing import Final
from uuid import uuid4

# As the server makes them itself (scram_iterations).
ITERATIONS: Final = 4_096
PASSWORD_CHARACTERS_MIN: Final = 16


class PasswordRefused(ValueError):
    """The password cannot be used for a login. The message never repeats it."""


def scram_verifier(password: str, *, salt: bytes | None = None, iterations: int = ITERATIONS) -> str:
    """What PostgreSQL keeps of a password, in its own form: it takes this text for the password and stores it as it is.

    Raises PasswordRefused for a password under 16 characters, or with others than printable ASCII: what becomes of
    those is decided by each client's own normalisation (RFC 4013), and a login must not depend on the client.
    """
    if len(password) < PASSWORD_CHARACTERS_MIN:
        raise PasswordRefused(f"the password has fewer than {PASSWORD_CHARACTERS_MIN} characters")
    if not all(" " <= character <= "~" for character in password):
        raise PasswordRefused("the password has a character that is not printable ASCII")
    salt = uuid4().bytes if salt is None else salt
    salted = pbkdf2_hmac("sha256", password.encode("ascii"), salt, iterations)
    stored_key = sha256(digest(salted, b"Client Key", "sha256")).digest()
    server_key = digest(salted, b"Server Key", "sha256")
    text = (b64encode(part).decode("ascii") for part in (salt, stored_key, server_key))
    return "SCRAM-SHA-256${}:{}${}:{}".format(iterations, *text)

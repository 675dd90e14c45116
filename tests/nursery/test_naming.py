"""Names of callables never show arguments or objects."""

from functools import partial

from nursery.naming import name_of


class Vault:
    def __init__(self, secret: str) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        return f"Vault({self.secret})"

    def open(self, key: str) -> None: ...

    def __call__(self) -> None: ...


def test_names_of_every_kind_of_callable() -> None:
    """Goal: a telling name without values. Method: function, method, nested partial, callable object, builtin."""
    vault = Vault("hunter2")
    assert name_of(test_names_of_every_kind_of_callable) == "test_names_of_every_kind_of_callable"
    assert name_of(vault.open) == "Vault.open"
    assert name_of(partial(partial(vault.open), "hunter2")) == "Vault.open"
    assert name_of(vault) == "Vault"
    assert name_of(print) == "print"

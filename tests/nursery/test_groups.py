"""Taking a lone error out of its groups without harm to its traceback, cause and context."""

import pytest

from nursery.groups import unwrap, unwrapped


def test_unwrap_of_plain_nested_and_plural() -> None:
    """Goal: exactly the groups of one are seen through. Method: each shape once."""
    error = LookupError("absent")
    plural = ExceptionGroup("b", [error, OSError()])
    assert unwrap(error) is error
    assert unwrap(ExceptionGroup("a", [ExceptionGroup("b", [error])])) is error
    assert unwrap(plural) is plural
    assert unwrap(ExceptionGroup("a", [plural])) is plural


def test_unwrapped_raises_the_member_itself_with_its_own_context() -> None:
    """Goal: the printed traceback shows the true history and no cycle. Method: an error raised while handling another,
    grouped twice."""

    def fail() -> None:
        try:
            int("no number")
        except ValueError:
            raise LookupError("absent")  # noqa: B904 - the implicit context is what is tested

    def fail_in_groups() -> None:
        with unwrapped():
            try:
                fail()
            except LookupError as error:
                raise ExceptionGroup("outer", [ExceptionGroup("inner", [error])]) from None

    with pytest.raises(LookupError) as caught:
        fail_in_groups()
    assert isinstance(caught.value.__context__, ValueError)
    assert caught.value.__cause__ is None
    assert "fail" in [entry.name for entry in caught.traceback]


def test_unwrapped_leaves_plain_errors_and_plural_groups_alone() -> None:
    """Goal: nothing is dropped, nothing invented. Method: identity of what leaves."""
    for error in (LookupError("absent"), ExceptionGroup("two", [OSError("a"), OSError("b")])):
        with pytest.raises(type(error)) as caught, unwrapped():
            raise error
        assert caught.value is error
    with unwrapped():
        pass

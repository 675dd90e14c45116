"""Key material prints, copies, compares and pickles nowhere."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from tayho.custody.errors import KeyWiped
from tayho.custody.key_material import KeyMaterial
from tests.custody.examples import KEY_HEX, rendered, shows

OCTETS = bytes.fromhex(KEY_HEX)


def material() -> KeyMaterial:
    return KeyMaterial(bytearray(OCTETS))


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r}".format, "%s".__mod__, lambda held: str([held])])
def test_no_rendering_shows_the_bytes(show: Callable[[object], str]) -> None:
    """Goal: no accidental print shows a key. Method: render in every ordinary way and look for the bytes."""
    assert "KeyMaterial(hidden)" in show(material())
    assert not shows(show(material()), OCTETS)


@pytest.mark.parametrize(
    "attempt",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        hash,
        iter,
        bytes,
        len,
        vars,
        lambda held: held == held,  # noqa: PLR0124
        lambda held: held != material(),
        lambda held: held == OCTETS,
        lambda held: held in [material()],
        lambda held: held[0],
        lambda held: f"{held:x}",
        lambda held: held.__getstate__(),
        lambda held: held.__reduce__(),
    ],
)
def test_the_bytes_leave_by_no_side_door(attempt: Callable[[KeyMaterial], object]) -> None:
    """Goal: the only way to the bytes is `revealed`. Method: every protocol that hands bytes out raises."""
    with pytest.raises(TypeError):
        attempt(material())


def test_no_subclass_can_open_it_up() -> None:
    """Goal: the instance has no attributes beyond its slot. Method: setting one fails."""
    with pytest.raises(AttributeError):
        material().note = "x"  # type: ignore[attr-defined]


def test_construction_takes_the_bytes_over() -> None:
    """Goal: no second copy stays with whoever parsed the key. Method: the source is zeros afterwards."""
    source = bytearray(OCTETS)
    held = KeyMaterial(source)
    assert source == bytearray(32)
    with held.revealed() as octets:
        assert octets == OCTETS


def test_what_was_lent_is_overwritten_when_the_block_ends() -> None:
    """Goal: the lent copy does not outlive its block. Method: keep a reference, end the block well and badly."""
    held = material()
    with held.revealed() as lent:
        assert lent == OCTETS
    assert lent == bytearray(32)
    with pytest.raises(RuntimeError), held.revealed() as lent:
        raise RuntimeError
    assert lent == bytearray(32)
    with held.revealed() as again:
        assert again == OCTETS


def test_a_traceback_with_locals_shows_zeros() -> None:
    """Goal: an error inside the block tells nothing. Method: render it with every frame's locals."""

    def use(held: KeyMaterial) -> None:
        with held.revealed() as octets:
            raise RuntimeError(len(octets))

    with pytest.raises(RuntimeError) as caught:
        use(material())
    assert "octets = bytearray(" in rendered(caught.value)
    assert not shows(rendered(caught.value), OCTETS)


def test_the_bytes_are_wiped_when_the_scope_ends() -> None:
    """Goal: an ended scope leaves nothing to use. Method: leave the scope, then ask for the bytes again."""
    with material() as held:
        assert not held.wiped
    assert held.wiped
    assert repr(held) == "KeyMaterial(wiped)"
    held.wipe()
    with pytest.raises(KeyWiped), held.revealed():
        pass


def test_wiping_overwrites_before_it_lets_go() -> None:
    """Goal: wiping is more than forgetting. Method: hold the buffer's very memory while it is overwritten."""
    held = material()
    window = memoryview(held._octets)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(BufferError):  # a held window forbids the release, never the overwriting
        held.wipe()
    assert bytes(window) == bytes(32)
    window.release()
    held.wipe()
    assert held.wiped

"""Tests are held to the same."""


def test_half(lane):
    """Goal: none. Method: none."""
    assert lane.balance_wei * 0.5 == 1  # breaks ARC-4

"""Integers for money; floats for what is none."""

from pathlib import Path

FEE_POLL_SECONDS = 2.5
BASIS_POINTS = 10_000


def bump(fee_wei: int, fees: list[int], folder: Path) -> int:
    """The fee, raised by an eighth and rounded up."""
    raised_wei = -(-fee_wei * 11_250 // BASIS_POINTS)
    seconds_each = len(fees) / 3
    gas_report_path = folder / "gas.json"
    fee_chart_path = folder / fee_name()
    mean_seconds = 2.5 / 2
    return raised_wei + int(seconds_each) + len(str(gas_report_path)) + len(str(fee_chart_path)) + int(mean_seconds)


def fee_name() -> str:
    """A name is no money."""
    return "fee"

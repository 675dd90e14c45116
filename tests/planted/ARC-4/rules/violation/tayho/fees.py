"""Floats that touch money, one of each kind."""

GWEI = 1e9  # breaks ARC-4


def bump(fee_wei: int, tip_wei: float = 0) -> int:  # breaks ARC-4
    doubled = fee_wei * 2.0  # breaks ARC-4
    half = fee_wei / 2  # breaks ARC-4
    share = sum_of(fee_wei) / 3  # breaks ARC-4
    capped = round(fee_wei)  # breaks ARC-4
    shown = float(fee_wei)  # breaks ARC-4
    gas_price = 1.5  # breaks ARC-4
    balance_wei = int(1.5 * 10**18)  # breaks ARC-4
    balance_wei /= 2  # breaks ARC-4
    if fee_wei > 0.5:  # breaks ARC-4
        return pay(amount=0.1)  # breaks ARC-4
    return doubled, half, share, capped, shown, gas_price, balance_wei, tip_wei


def pay(amount: int, *, cost: int = 0.0) -> int:  # breaks ARC-4
    return amount + cost


def sum_of(value: int) -> int:
    return value


def gas_price_of(head) -> float:  # breaks ARC-4
    return head

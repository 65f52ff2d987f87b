"""Numbers as people read them."""

from __future__ import annotations

from typing import Any


def number_text(value: Any) -> str:
    """Returns a number with four significant digits, or all of an integer that is not long.

    >>> number_text(1234567), number_text(0.0001235), number_text(1234.56), number_text(2.5), number_text(10**19)
    ('1,234,567', '0.0001235', '1,235', '2.5', '1e+19')
    """
    if isinstance(value, int) and abs(value) < 10**15:
        return f"{value:,}"
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def share_text(count: int, total: int) -> str:
    """Returns a share in percent.

    >>> share_text(1, 3), share_text(1, 100000), share_text(5, 5)
    ('33.3%', '<0.1%', '100%')
    """
    share = 100 * count / max(total, 1)
    if 0 < share < 0.1:
        return "<0.1%"
    return "100%" if count == total else f"{share:.1f}%"

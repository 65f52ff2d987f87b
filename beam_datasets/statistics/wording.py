"""Numbers as people read them."""

from __future__ import annotations

from typing import Any


def number_text(value: Any) -> str:
    """Returns an integer with all of its digits, and a float with four significant digits.

    >>> number_text(1234567), number_text(0.0001235), number_text(1234.56), number_text(2.5), number_text(2**63)
    ('1,234,567', '0.0001235', '1,235', '2.5', '9,223,372,036,854,775,808')
    """
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def share_text(count: int, total: int) -> str:
    """Returns a share in percent; '-' for a share of nothing.

    >>> share_text(1, 3), share_text(1, 100000), share_text(5, 5), share_text(0, 5), share_text(0, 0)
    ('33.3%', '<0.1%', '100%', '0%', '-')
    """
    if not total:
        return "-"
    if count in (0, total):
        return "100%" if count else "0%"
    share = 100 * count / total
    return "<0.1%" if share < 0.1 else f"{share:.1f}%"

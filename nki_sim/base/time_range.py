"""A modelled time in words, with its range."""

from __future__ import annotations

_UNITS = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))


def time_range(
    ns: float, low_ns: float | None = None, high_ns: float | None = None, unit: str = ""
) -> str:
    """Returns a time with four digits and its range with three, such as "95.2 us (80 to 140)".

    Nanoseconds are whole. A range whose ends show alike is left out.

    Args:
        ns: the modelled time in nanoseconds.
        low_ns, high_ns: its range, or None.
        unit: s, ms, us or ns; by default the largest unit of which the time has at least one.
    """
    # No time shows as 1,000 of the unit below.
    unit = unit or next((name for name, one in _UNITS if round(ns) >= 0.99995 * one), "ns")
    size = dict(_UNITS)[unit]
    text = f"{_digits(ns / size, 4, unit)} {unit}"
    if low_ns is None or high_ns is None:
        return text
    low, high = (_digits(one / size, 3, unit) for one in (low_ns, high_ns))
    return text if low == high else f"{text} ({low} to {high})"


def _digits(value: float, count: int, unit: str) -> str:
    return f"{value:.0f}" if value >= 10**count or unit == "ns" else f"{value:.{count}g}"

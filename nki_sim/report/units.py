"""Numbers as the report writes them. Its scripts write numbers with more digits (events.js)."""

from __future__ import annotations

import math

from nki_sim.base.time_range import time_range


def micro(text: str) -> str:
    """Returns a text with the pages' unit µs where notes and terminals have us."""
    return text.replace(" us", " µs")


def time_text(ns: float) -> str:
    """Returns a modelled time as `time_range` does, with the sign of micro."""
    return micro(time_range(ns))


def range_text(ns: float, low_ns: float, high_ns: float) -> str:
    """Returns the range of a time in brackets, in the unit of the time, or nothing."""
    return time_range(ns, low_ns, high_ns).removeprefix(time_range(ns)).lstrip()


def bytes_text(count: float) -> str:
    """Returns a number of bytes in the binary unit that suits it."""
    power = min(4, int(math.log2(count) // 10)) if count >= 1 else 0
    value = count / 1024**power
    digits = 0 if power == 0 or value == int(value) else 1
    return f"{value:,.{digits}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def count_text(count: float) -> str:
    """Returns a number with three digits, for example 67.1 M."""
    power = min(4, int(math.log10(count) // 3)) if count >= 1 else 0
    return f"{count / 1000**power:.3g} {('', 'k', 'M', 'G', 'T')[power]}".rstrip()


def percent_text(share: float) -> str:
    """Returns a share of 0 to 1 in percent. Only a share of 0 shows as 0%."""
    if 0 < share < 0.0005:
        return "<0.1%"
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"

"""Changes of the bytes of files."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st


def changed_bytes(draw: Callable[..., Any], content: bytes) -> bytes:
    """Overwrites, removes or adds some bytes, behind the header or anywhere."""
    data = bytearray(content)
    if draw(st.booleans()) and len(data) > 200:  # changes numbers behind an unchanged header
        for _ in range(draw(st.integers(1, 6))):
            data[draw(st.integers(130, len(data) - 1))] = draw(st.integers(0, 255))
        return bytes(data)
    for _ in range(draw(st.integers(1, 6))):
        end = draw(st.sampled_from((len(data), min(len(data), 128))))
        place = draw(st.integers(0, max(end - 1, 0)))
        change = draw(st.sampled_from(("write", "write", "cut", "insert", "repeat")))
        new = draw(st.binary(min_size=1, max_size=4))
        if change == "write":
            data[place : place + len(new)] = new
        elif change == "cut":
            del data[place : place + draw(st.sampled_from((1, 4, 100, len(data))))]
        elif change == "insert":
            data[place:place] = new
        else:
            data[place:place] = data[place : place + 16]
    return bytes(data)

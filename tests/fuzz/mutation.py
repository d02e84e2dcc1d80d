"""Changes of the bytes of files."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st


def changed_bytes(draw: Callable[..., Any], content: bytes) -> bytes:
    """Overwrites, removes or adds some bytes, in the header or anywhere."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, min(len(data), 128)) | st.integers(0, len(data)))
        removed = draw(st.sampled_from((0, 1, 4, 100)))
        data[place : place + removed] = draw(st.binary(max_size=4))
    return bytes(data)

"""Changes of the contents of files: of a JSON value, and of bytes."""

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=1)
VALUES |= st.builds(list) | st.builds(dict) | st.just([2])


def changed_json(draw: Callable[..., Any], root: Any, other: Any) -> None:
    """Changes a list or a dictionary in one place, perhaps to a part of `other`."""
    place = draw(st.sampled_from(_containers(root)))
    keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
    if not keys:
        return
    key = draw(st.sampled_from(keys))
    change = draw(st.sampled_from(("value", "value", "near", "remove", "copy", "other")))
    if change == "value":
        place[key] = copy.deepcopy(draw(VALUES))  # the value may be changed later
    elif change == "near" and isinstance(place[key], (int, float)):
        place[key] = draw(st.sampled_from((place[key] + 1, place[key] * 2, place[key] // 2)))
    elif change == "remove":
        del place[key]
    elif change == "copy":
        place[key] = copy.deepcopy(place[draw(st.sampled_from(keys))])
    elif isinstance(place, dict) and key in other:
        place[key] = copy.deepcopy(other[key])


def _containers(value: Any) -> list[Any]:
    """Returns all dictionaries and lists in a value, beginning with the value."""
    if not isinstance(value, (dict, list)):
        return []
    parts = value.values() if isinstance(value, dict) else value
    return [value] + [found for part in parts for found in _containers(part)]


def changed_bytes(draw: Callable[..., Any], content: bytes) -> bytes:
    """Overwrites, removes or adds some bytes, in the header or anywhere."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, min(len(data), 128)) | st.integers(0, len(data)))
        removed = draw(st.sampled_from((0, 1, 4, 100)))
        data[place : place + removed] = draw(st.binary(max_size=4))
    return bytes(data)

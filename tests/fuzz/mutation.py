"""Changes of the contents of files: of a JSON value, and of bytes."""

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    1,
    2,
    3,
    7,
    64,
    128,
    -1,
    2**31,
    2**62,
    2**70,
    0.0,
    1e-9,
    1e300,
    "",
    "x",
    [],
    [2],
    {},
)


def changed_json(draw: Callable[..., Any], root: Any, other: Any) -> None:
    """Changes a list or a dictionary in one place, perhaps to a part of `other`."""
    place = draw(st.sampled_from(_containers(root)))
    keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
    if not keys:
        return
    key = draw(st.sampled_from(keys))
    change = draw(st.sampled_from(("value", "value", "near", "remove", "copy", "other")))
    if change == "value":
        place[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))  # the value may be changed later
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

"""Verdicts on files of plans: whatever they say, transforms stay right."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import torch

import trnfft
from tests.fuzz.child import RIGHT
from trnfft.planner import exchange, planner, wisdom

CHIP = "trn1"  # where nothing says otherwise
BACKENDS = ("matmul", "nki-sim")
BATCH = 4
TOLERANCE = 1e-6  # of the precision "fast"


@dataclass(frozen=True)
class File:
    """A user's file of plans, and the transform that is asked for then.

    Attributes:
        content: of the file.
        n: length.
        real: whether the data is.
        backend: name.
        is_imported: whether it is a file for `import_wisdom`, not the one in the cache folder.
    """

    content: bytes
    n: int
    real: bool
    backend: str
    is_imported: bool = False


def rows() -> list[dict[str, Any]]:
    """Valid rows: the plans that a search finds for some lengths."""
    lengths = (1, 2, 12, 64, 97, 100, 257, 300, 512, 600)
    kinds = [(n, real) for n in lengths for real in (False, True)]
    return [trnfft.plan(n, real=real, batch=BATCH, target=CHIP).to_dict() for n, real in kinds]


def judge(file: File) -> str:
    """RIGHT, or what is wrong with the transform or with the report on the file."""
    with tempfile.TemporaryDirectory() as folder:
        platformdirs.user_cache_dir = lambda *names: folder
        planner.forget()
        path = Path(folder, "a") if file.is_imported else Path(wisdom.user_file(CHIP))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        try:
            if file.is_imported:
                _import(path)
            wisdom.examine(CHIP)
            return _transform(file)
        except BaseException as error:  # noqa: BLE001 nothing in a file is an error
            return f"raises {type(error).__name__}: {str(error)[:200]}"


def _import(path: Path) -> None:
    """What is no file of wisdom is refused, plans that are wrong are left out."""
    try:
        trnfft.import_wisdom(path)
    except ValueError as error:
        if not str(error).startswith("argument 'path' is"):
            raise


def _transform(file: File) -> str:
    torch.manual_seed(file.n)
    x = torch.randn(BATCH, file.n)
    name = "rfft" if file.real else "fft"
    with trnfft.backend(file.backend):
        found = trnfft.as_native(getattr(trnfft, name)(x))
    right = getattr(torch.fft, name)(x.double())
    error = float(torch.linalg.vector_norm(found - right) / torch.linalg.vector_norm(right))
    return RIGHT if error <= TOLERANCE else f"has the relative error {error:.2g}"


def header() -> bytes:
    """The first line of a file for `import_wisdom`."""
    fields = {"format": exchange.FORMAT, "fingerprint": wisdom.fingerprint()}
    return json.dumps(fields).encode()


def as_line(row: Any) -> bytes:
    """A row as a line of a file."""
    return b"\n" + json.dumps(row).encode("utf-8", "surrogatepass") + b"\n"

"""Verdicts on files of plans: transforms are right whatever the files contain."""

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
from trnfft.planner import planner, wisdom, wisdom_files
from trnfft.planner.accuracy import MAX_ERRORS

CHIP = "trn1"  # the default chip
BACKENDS = ("matmul", "nki-sim")
BATCH = 4
TOLERANCE = MAX_ERRORS["fast"]


@dataclass(frozen=True)
class File:
    """A user's file of plans, and a transform that is computed with it.

    Attributes:
        content: the bytes of the file.
        n: length of the transform.
        real: whether the data is real.
        backend: name of the backend.
        is_imported: whether `import_wisdom` reads the file; otherwise it is in the cache folder.
    """

    content: bytes
    n: int
    real: bool
    backend: str
    is_imported: bool = False


def rows() -> list[dict[str, Any]]:
    """Returns valid rows: the plans that a search finds for some lengths."""
    lengths = (1, 2, 12, 64, 97, 100, 257, 300, 512, 600)
    kinds = [(n, real) for n in lengths for real in (False, True)]
    return [trnfft.plan(n, real=real, batch=BATCH, target=CHIP).to_dict() for n, real in kinds]


def judge(file: File) -> str:
    """Returns RIGHT, or the fault of the transform or of the report on the file."""
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
        except BaseException as error:  # noqa: BLE001 no content may cause an error
            return f"raises {type(error).__name__}: {str(error)[:200]}"


def _import(path: Path) -> None:
    """Imports a file. A file without wisdom is refused, and wrong plans in a file are left out."""
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
    """Returns the first line of a file for `import_wisdom`."""
    fields = {"format": wisdom_files.FORMAT, "fingerprint": wisdom.fingerprint()}
    return json.dumps(fields).encode()


def as_line(row: Any) -> bytes:
    """Returns a row as a line of a file."""
    return b"\n" + json.dumps(row).encode("utf-8", "surrogatepass") + b"\n"

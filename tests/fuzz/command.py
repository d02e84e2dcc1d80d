"""Verdicts on runs of the command `trnfft`: it gives a result, or one message and no traceback."""

from __future__ import annotations

import contextlib
import io
import tempfile
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from typer.testing import CliRunner

from tests.fuzz.child import REFUSED, RIGHT
from trnfft import cli
from trnfft_demo.picture import PictureError, read_picture, write_picture


@dataclass(frozen=True)
class Run:
    """Arguments of the command, and the files in its working folder."""

    arguments: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...]

    def __str__(self) -> str:
        return " ".join(map(repr, self.arguments)) + f" {self.files}"


def recordings() -> dict[str, bytes]:
    """Returns valid recordings, by their names."""
    numbers = np.sin(np.arange(200) * 0.3)
    stored, wav = io.BytesIO(), io.BytesIO()
    np.save(stored, numbers)
    with wave.open(wav, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((numbers * 30000).astype("<i2").tobytes())
    text = "\n".join(f"{number:.6f}" for number in numbers)
    return {"a.npy": stored.getvalue(), "a.wav": wav.getvalue(), "a.csv": text.encode()}


def pictures() -> dict[str, bytes]:
    """Returns valid pictures, by their names."""
    levels = np.arange(9 * 12 * 3, dtype=np.uint8).reshape(9, 12, 3)
    npy, png, jpg = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(npy, levels.astype(np.float32) / 255)
    Image.fromarray(levels).save(png, "PNG")
    Image.fromarray(levels).save(jpg, "JPEG")
    exr, hdr = io.BytesIO(), io.BytesIO()
    light = np.moveaxis(levels.astype(np.float32) / 16, -1, 0)
    write_picture(light, exr, Path("a.exr"))
    write_picture(light, hdr, Path("a.hdr"))
    files = {"a.npy": npy, "a.png": png, "a.jpg": jpg, "a.exr": exr, "a.hdr": hdr}
    return {name: file.getvalue() for name, file in files.items()}


def judge(run: Run) -> str:
    """Returns RIGHT, REFUSED, or a description of the fault."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in run.files:
            Path(name).write_bytes(content)
        result = CliRunner().invoke(cli.app, list(run.arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            error = result.exception
            return f"raises {type(error).__name__}: {str(error)[:200]}"
        if result.exit_code:
            return _judged_refusal(result.exit_code, result.stderr)
        return _judged_result(run)


def _judged_refusal(code: int, message: str) -> str:
    is_usage = message.startswith("Usage: ") and "Error" in message
    if code not in (1, 2) or not message.strip() or "Traceback" in message:
        return f"ends with {code}: {message[:300]}"
    if not is_usage and message.count("\n") != 1:
        return f"has more than one sentence: {message[:300]}"
    return REFUSED


def _judged_result(run: Run) -> str:
    """Returns RIGHT where a picture is written; commands check their own results."""
    before = dict(run.files)
    written = [path for path in Path().iterdir() if path.read_bytes() != before.get(path.name)]
    return RIGHT if written or run.arguments[0] == "plan" else "writes no picture"


def judge_picture(file: tuple[str, bytes]) -> str:
    """Returns RIGHT for a picture that is read, REFUSED, or a description of the fault."""
    name, content = file
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            light = read_picture(path).light
        except PictureError as error:
            return REFUSED if "\n" not in str(error) else f"has more than one sentence: {error}"
        except Exception as error:
            return f"raises {type(error).__name__}: {str(error)[:200]}"
    return RIGHT if light.ndim == 3 and np.isfinite(light).all() else f"is {light.shape}"

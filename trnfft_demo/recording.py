"""A recorded signal: one channel of samples, read from a WAV, .npy or .csv file.

A file that holds no usable recording raises RecordingError: one sentence with the name of the file
and what is wrong with it.
"""

from __future__ import annotations

import io
import os
import re
import warnings
import wave
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from trnfft.base.distributions import from_extra
from trnfft.cli.printable import printable
from trnfft_demo.input_file import read_real_array, reading

MOST_SAMPLES = 2**25  # in all channels: two channels of six minutes at 44.1 kHz
MOST_LINES = 2**22  # in a .csv file: reading a million lines lasts about a second

# What Python's module wave says of floats (format 3) and of extended headers. Newer versions read
# extended headers, and say the second sentence where these hold floats.
_NOT_PLAIN_PCM = r"unknown format: (3|65534)$|unknown extended format"

FloatArray = NDArray[np.float64]
Contents = tuple[FloatArray, float | None, int]  # samples, sample rate, channels in the file


class RecordingError(ValueError):
    """A file that cannot be used as a recording, and why, in one sentence."""


@dataclass(frozen=True)
class Recording:
    """A recorded signal.

    Attributes:
        name: name of the file, or of the built-in recording.
        samples: one number a point in time: of several channels their mean.
        sample_rate: in Hz; None where the file does not tell it.
        channels: number of channels in the file.
    """

    name: str
    samples: FloatArray
    sample_rate: float | None
    channels: int = 1


def read_recording(
    path: str | os.PathLike[str] | None = None, column: str | None = None
) -> Recording:
    """Returns the recording in a file, or without a file an electrocardiogram of PyWavelets.

    Args:
        path: name of the file.
        column: which column of a .csv file holds the samples: its name in the first line or its
            number, from 1 on. It is needed where the file has several columns.
    """
    if path is None:
        return _electrocardiogram()
    path = Path(path)
    with reading(path, _READERS, RecordingError) as file:
        samples, sample_rate, channels = _READERS[path.suffix.lower()](file, column)
        _check(samples)
    return Recording(printable(path.name), samples, sample_rate, channels)


def _electrocardiogram() -> Recording:
    """Returns an electrocardiogram of three heart beats, 1024 samples.

    PyWavelets does not tell its sample rate. The rate of the MIT-BIH arrhythmia database, 360 Hz,
    puts the mains hum of this recording at 59.9 Hz and its pulse at 65 beats a minute.
    """
    try:
        import pywt.data
    except ImportError as error:
        raise RecordingError(
            f"the sample recording needs PyWavelets, {from_extra('demo')}; or name a file"
        ) from error
    return Recording("ECG from PyWavelets", pywt.data.ecg().astype(np.float64), 360.0)


def _check(samples: FloatArray) -> None:
    if samples.size < 2:
        raise RecordingError(f"it needs at least 2 samples and has {samples.size}")
    bad = np.flatnonzero(~np.isfinite(samples))
    if bad.size:
        raise RecordingError(f"sample {bad[0]} is {samples[bad[0]]}, allowed are finite numbers")
    largest = samples[np.argmax(np.abs(samples))]
    if abs(largest) > np.finfo(np.float32).max:
        raise RecordingError(f"the sample {largest:g} is larger than float32 holds")


def _read_wav(stream: BinaryIO, column: str | None) -> Contents:
    """Returns the mean of all channels: PCM of 8 to 32 bits as numbers in [-1, 1), or floats."""
    _check_no_column(column)
    try:
        with wave.open(stream, "rb") as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            frames = file.getnframes()
            if frames * channels > MOST_SAMPLES:
                raise RecordingError(
                    f"it has {frames} samples of {channels} channels, allowed are {MOST_SAMPLES} "
                    f"in all; cut out a part of it"
                )
            data = file.readframes(frames)
    except wave.Error as error:
        if re.match(_NOT_PLAIN_PCM, str(error)):
            return _read_float_wav(stream)
        raise RecordingError(f"only WAV files of PCM or floats are supported ({error})") from error
    except (EOFError, RuntimeError) as error:  # the last: a seek beyond a chunk
        reason = str(error) or "it ends too early"
        raise RecordingError(f"only WAV files of PCM or floats are supported ({reason})") from error
    if width > 4 or rate <= 0:
        raise RecordingError(
            f"its PCM samples have {8 * width} bits and its rate is {rate} Hz, allowed are 8, 16, "
            f"24 or 32 bits and a rate above 0"
        )
    if len(data) != frames * channels * width:
        present = len(data) // (channels * width)
        raise RecordingError(f"it is cut short: it has {present} of {frames} samples")
    raw = np.frombuffer(data, np.uint8).reshape(-1, width)
    # Samples go to the high bytes of an int32: one scale for every width. 8 bit WAV is unsigned.
    padded = np.zeros((len(raw), 4), np.uint8)
    padded[:, 4 - width :] = raw ^ 0x80 if width == 1 else raw
    samples = padded.view("<i4").reshape(-1, channels).mean(axis=1) / 2**31
    return samples, float(rate), channels


def _read_float_wav(stream: BinaryIO) -> Contents:
    """Returns the mean of all channels: floats as stored, PCM with an extended header scaled."""
    try:
        from scipy.io import wavfile
    except ImportError as error:
        raise RecordingError(
            f"WAV files other than PCM need SciPy, {from_extra('demo')}"
        ) from error
    stream.seek(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # chunks with names of songs, for example
            warnings.filterwarnings("error", "Reached EOF prematurely")
            rate, samples = wavfile.read(stream)
    except Warning as error:
        raise RecordingError("it is cut short") from error
    except MemoryError:
        raise
    except Exception as error:  # whatever its parser raises of broken headers
        raise RecordingError(f"it is no complete WAV file of PCM or floats ({error})") from error
    if samples.size > MOST_SAMPLES or rate <= 0:
        raise RecordingError(
            f"it has {samples.size} samples at {rate} Hz, allowed are up to {MOST_SAMPLES} at 1 Hz "
            f"or more"
        )
    scale, middle = 1.0, 0.0
    if samples.dtype.kind != "f":  # 8 bits are unsigned, 24 come in the high bytes of 32
        scale = 2.0 ** (8 * samples.dtype.itemsize - 1)
        middle = 1.0 if samples.dtype.kind == "u" else 0.0
    values = samples.astype(np.float64).reshape(len(samples), -1) / scale - middle
    return values.mean(axis=1), float(rate), values.shape[1]


def _check_no_column(column: str | None) -> None:
    if column is not None:
        raise RecordingError(
            f"argument '--column' is {column[:40]!r}, allowed only for .csv files; leave it out"
        )


def _read_npy(file: BinaryIO, column: str | None) -> Contents:
    """Returns a one-dimensional array of real numbers, without axes of length one."""
    _check_no_column(column)
    values = read_real_array(file, MOST_SAMPLES, RecordingError)
    if values.ndim == 0 or np.squeeze(values).ndim > 1:
        raise RecordingError(f"its shape is {values.shape}, allowed is one dimension")
    return values.reshape(-1).astype(np.float64), None, 1


def _read_csv(file: BinaryIO, column: str | None) -> Contents:
    """Returns one column. Commas, semicolons or blanks separate columns; names may come first."""
    samples = array("d")
    place: int | None = None
    text = io.TextIOWrapper(file, encoding="utf-8-sig")
    try:
        for number, line in enumerate(text, start=1):
            if number > MOST_LINES:
                raise RecordingError(f"it has more than {MOST_LINES} lines; cut out a part of it")
            if not line.strip():
                continue
            cells = [cell.strip('"') for cell in re.split(r"[,;]\s*|\s+", line.strip())]
            if place is None:
                place = _column(cells, column)
            elif len(cells) > 1 and column is None:
                raise RecordingError(f"line {number} has {len(cells)} columns, {_CHOOSE}")
            cell = cells[place] if place < len(cells) else ""
            try:
                samples.append(float(cell))
            except ValueError:
                if samples or number > 1:
                    raise RecordingError(
                        f"line {number} has {cell[:40]!r} in column {place + 1}, which is no number"
                    ) from None
    except UnicodeDecodeError as error:
        raise RecordingError("it is not UTF-8 text") from error
    finally:
        text.detach()  # so that the file stays open, which the caller closes
    return np.array(samples), None, 1


_CHOOSE = "and one is needed; choose it with --column, by its name or its number, from 1 on"


def _column(cells: list[str], column: str | None) -> int:
    """Returns the index of the chosen column, given the cells of the first line."""
    if column is None:
        if len(cells) > 1:
            shown = ", ".join(printable(cell[:40]) for cell in cells[:8])
            raise RecordingError(f"it has {len(cells)} columns ({shown}), {_CHOOSE}")
        return 0
    if column in cells:
        return cells.index(column)
    if column.isdecimal() and 1 <= int(column) <= len(cells):
        return int(column) - 1
    shown = ", ".join(printable(cell[:40]) for cell in cells[:8])
    raise RecordingError(
        f"it has no column {column[:40]!r}, allowed are 1 to {len(cells)} and the names in its "
        f"first line ({shown})"
    )


_READERS = {".wav": _read_wav, ".npy": _read_npy, ".csv": _read_csv}

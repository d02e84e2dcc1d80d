"""Recordings are read exactly, and a file that holds none is refused in one sentence."""

import io
import struct
import sys
import wave

import numpy as np
import pytest

from trnfft_demo.recording import RecordingError, read_recording

FULL_SCALE_HALF = {1: b"\xc0", 2: b"\x00\x40", 3: b"\x00\x00\x40", 4: b"\x00\x00\x00\x40"}
MINUS_ONE = {1: b"\x00", 2: b"\x00\x80", 3: b"\x00\x00\x80", 4: b"\x00\x00\x00\x80"}


def write_wav(path, data, width=2, channels=1, rate=8000):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
    return path


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_wav_of_every_pcm_width(tmp_path, width):
    data = FULL_SCALE_HALF[width] + MINUS_ONE[width]
    recording = read_recording(write_wav(tmp_path / "a.wav", data, width))
    np.testing.assert_array_equal(recording.samples, [0.5, -1.0])
    assert (recording.name, recording.sample_rate) == ("a.wav", 8000.0)
    assert recording.samples.dtype == np.float64


def test_wav_channels_become_their_mean(tmp_path):
    stereo = np.array([[8192, 16384], [-8192, 8192]], "<i2").tobytes()
    recording = read_recording(write_wav(tmp_path / "a.WAV", stereo, channels=2))
    np.testing.assert_array_equal(recording.samples, [0.375, 0.0])
    assert recording.channels == 2


def float_wav(array, change=lambda data: data):
    """Bytes of a WAV file of this array, by SciPy."""
    wavfile = pytest.importorskip("scipy.io.wavfile")
    file = io.BytesIO()
    wavfile.write(file, 8000, array)
    return change(file.getvalue())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wav_of_floats(tmp_path, dtype):
    samples = np.random.default_rng(0).standard_normal((50, 2)).astype(dtype)  # beyond 1, too
    (tmp_path / "a.wav").write_bytes(float_wav(samples))
    recording = read_recording(tmp_path / "a.wav")
    np.testing.assert_array_equal(recording.samples, samples.astype(np.float64).mean(1))
    assert (recording.name, recording.sample_rate) == ("a.wav", 8000.0)
    (tmp_path / "mono.wav").write_bytes(float_wav(samples[:, 0]))
    np.testing.assert_array_equal(read_recording(tmp_path / "mono.wav").samples, samples[:, 0])
    assert (recording.channels, read_recording(tmp_path / "mono.wav").channels) == (2, 1)


@pytest.mark.parametrize("bits, full", [(8, b"\xc0\x00"), (16, b"\x00\x40\x00\x80")])
def test_wav_of_pcm_with_an_extended_header(tmp_path, bits, full):
    """WAVE_FORMAT_EXTENSIBLE, whose format is a GUID: what recorders write."""
    pytest.importorskip("scipy")
    guid = bytes.fromhex("0100000000001000800000aa00389b71")
    size = bits // 8
    head = struct.pack("<HHIIHHHHI", 0xFFFE, 1, 8000, 8000 * size, size, bits, 22, bits, 4)
    chunks = b"fmt " + struct.pack("<I", 40) + head + guid + b"data" + struct.pack("<I", len(full))
    body = b"WAVE" + chunks + full
    (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    np.testing.assert_array_equal(read_recording(tmp_path / "a.wav").samples, [0.5, -1.0])


def test_wav_of_floats_needs_scipy(tmp_path, monkeypatch):
    (tmp_path / "a.wav").write_bytes(float_wav(np.ones(4, np.float32)))
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(RecordingError, match=r"need SciPy, which the extra \"demo\""):
        read_recording(tmp_path / "a.wav")


FLOATS = np.linspace(-1, 1, 100, dtype=np.float32)
BAD_FLOATS = {
    "cut in the data": (lambda data: data[:-100], "it is cut short"),
    "cut in a sample": (lambda data: data[:-99], "it is cut short"),
    "cut in a chunk's name": (lambda data: data[:40], "Incomplete chunk"),
    "no channels": (lambda data: data[:22] + b"\0\0" + data[24:], "no complete WAV file"),
    "no bits": (lambda data: data[:34] + b"\0\0" + data[36:], "0-bit floating-point"),
    "no rate": (lambda data: data[:24] + bytes(4) + data[28:], "at 0 Hz"),
    "mp3 inside": (
        lambda data: data[:20] + b"\x55\0" + data[22:],
        "only WAV files of PCM or floats.*unknown format: 85",
    ),
    "nan": (lambda data: data[:-4] + b"\xff\xff\xff\x7f", "sample 99 is nan"),
}


@pytest.mark.parametrize("change, sentence", BAD_FLOATS.values(), ids=BAD_FLOATS.keys())
def test_bad_wav_of_floats_is_refused_in_one_sentence(tmp_path, change, sentence):
    (tmp_path / "a.wav").write_bytes(float_wav(FLOATS, change))
    with pytest.raises(RecordingError, match=sentence) as caught:
        read_recording(tmp_path / "a.wav")
    assert "a.wav" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, -2, 3], np.int16),
        np.array([1.5, -2, 3], np.float32),
        np.array([[1.5], [-2], [3]], ">f8"),
        np.array([[True, False, True]]),
    ],
)
def test_npy_of_any_real_type(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    recording = read_recording(tmp_path / "a.npy")
    np.testing.assert_array_equal(recording.samples, array.reshape(-1))
    assert recording.sample_rate is None


@pytest.mark.parametrize(
    "text, column",
    [
        ("1.5\n-2\n3e2\n", None),
        ("volts\n1.5\n-2\n3e2", None),
        ("volts,seconds\n1.5,0\n-2,1\n3e2,2\n", "volts"),
        ("seconds,volts\n0,1.5\n1,-2\n2,3e2\n", "2"),
        ('\ufeff"volts";"x"\r\n"1.5";"a"\r\n"-2";"b"\r\n\r\n"3e2";"c"\r\n', "1"),
        ("1.5 0\n-2\t1\n3e2 2\n", "1"),
    ],
)
@pytest.mark.filterwarnings("error::ResourceWarning")
def test_csv_column(tmp_path, text, column):
    (tmp_path / "a.csv").write_bytes(text.encode())
    samples = read_recording(tmp_path / "a.csv", column).samples
    np.testing.assert_array_equal(samples, [1.5, -2, 300])


@pytest.mark.parametrize(
    "column, sentence",
    [
        (None, r"2 columns \(time, value\), .*--column"),
        ("volts", r"no column 'volts', allowed are 1 to 2 .*\(time, value\)"),
        ("0", "no column '0'"),
        ("3", "no column '3'"),
    ],
)
def test_several_csv_columns(tmp_path, column, sentence):
    (tmp_path / "a.csv").write_text("time,value\n0,1\n1,5\n")
    with pytest.raises(RecordingError, match=sentence):
        read_recording(tmp_path / "a.csv", column)
    np.save(tmp_path / "a.npy", np.ones(3))
    with pytest.raises(RecordingError, match="--column.* only for .csv files"):
        read_recording(tmp_path / "a.npy", "1")


def test_without_a_file_an_electrocardiogram():
    pytest.importorskip("pywt")
    recording = read_recording()
    assert recording.samples.shape == (1024,)
    assert recording.sample_rate == 360


def test_without_pywavelets_a_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "pywt.data", None)
    with pytest.raises(RecordingError, match=r"pip install \"\.\[demo\]\""):
        read_recording()


def _npy(array):
    return lambda path: np.save(path, array)


def _bytes(data):
    return lambda path: path.write_bytes(data)


def _spoiled_wav(change):
    def write(path):
        write_wav(path, bytes(200))
        path.write_bytes(change(path.read_bytes()))

    return write


# File name, how it is written, what the sentence says about it.
BAD = {
    "missing": ("a.wav", lambda path: None, "no such file"),
    "folder": ("a.csv", lambda path: path.mkdir(), "not a regular file"),
    "unknown kind": ("a.mp3", _bytes(b"x"), r"must end in one of \.wav, \.npy, \.csv"),
    "name too long": ("a" * 300 + ".csv", lambda path: None, "too long"),
    "empty wav": ("a.wav", _bytes(b""), "empty"),
    "empty npy": ("a.npy", _bytes(b""), "empty"),
    "empty csv": ("a.csv", _bytes(b""), "empty"),
    "not a wav": ("a.wav", _bytes(b"not a wav at all"), "only WAV files of PCM or floats"),
    "wav cut in the header": (
        "a.wav",
        _spoiled_wav(lambda data: data[:30]),
        "only WAV files of PCM or floats",
    ),
    "wav cut in the data": ("a.wav", _spoiled_wav(lambda data: data[:-100]), "50 of 100 samples"),
    "float wav": (
        "a.wav",
        _spoiled_wav(lambda data: data[:20] + b"\x03\x00" + data[22:]),
        "no complete WAV file of PCM or floats.*16-bit floating-point",
    ),
    "40 bit wav": ("a.wav", _spoiled_wav(lambda data: data[:34] + b"\x28\x00" + data[36:]), "40"),
    "wav without samples": ("a.wav", _spoiled_wav(lambda data: data[:40] + bytes(4)), "has 0"),
    "not an npy": ("a.npy", _bytes(b"not an npy at all"), "not a complete .npy array"),
    "cut npy": ("a.npy", _bytes(b"\x93NUMPY\x01\x00v\x00{'descr'"), "not a complete .npy array"),
    "pickled npy": ("a.npy", _npy(np.array([{}, 1], object)), "it holds object"),
    "complex npy": ("a.npy", _npy(np.ones(4, complex)), "complex128"),
    "text npy": ("a.npy", _npy(np.array(["1", "2"])), "allowed are real numbers"),
    "date npy": ("a.npy", _npy(np.zeros(4, "M8[s]")), "allowed are real numbers"),
    "0-d npy": ("a.npy", _npy(np.float64(3)), r"shape is \(\)"),
    "2-d npy": ("a.npy", _npy(np.ones((2, 5))), r"shape is \(2, 5\)"),
    "3-d npy": ("a.npy", _npy(np.ones((2, 3, 4))), r"shape is \(2, 3, 4\)"),
    "npy without samples": ("a.npy", _npy(np.ones(0)), "has 0"),
    "one sample": ("a.npy", _npy(np.ones(1)), "has 1"),
    "nan": ("a.npy", _npy(np.array([1, np.nan, 2])), "sample 1 is nan"),
    "inf": ("a.csv", _bytes(b"1\n2\n-inf\n"), "sample 2 is -inf"),
    "beyond float32": ("a.csv", _bytes(b"1\n-1e39\n"), "-1e[+]39 is larger than float32"),
    "header only": ("a.csv", _bytes(b"volts\n"), "has 0"),
    "word": ("a.csv", _bytes(b"volts\n1\nabc\n"), "line 3 has 'abc'"),
    "two headers": ("a.csv", _bytes(b"volts\nmV\n1\n2\n"), "line 2 has 'mV'"),
    "gap": ("a.csv", _bytes(b'1\n""\n3\n'), "line 2 has ''"),
    "not text": ("a.csv", _bytes(b"\xff\xfe\x00\x01"), "UTF-8"),
}


@pytest.mark.parametrize("name, write, sentence", BAD.values(), ids=BAD.keys())
def test_bad_file_is_refused_in_one_sentence(tmp_path, name, write, sentence):
    write(tmp_path / name)
    with pytest.raises(RecordingError, match=sentence) as caught:
        read_recording(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)

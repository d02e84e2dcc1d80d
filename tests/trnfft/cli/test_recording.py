"""Recordings are read exactly, and a file that holds none is refused in one sentence."""

import sys
import wave

import numpy as np
import pytest

from trnfft.cli.recording import RecordingError, read_recording

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
    "text",
    [
        "1.5\n-2\n3e2\n",
        "volts\n1.5\n-2\n3e2",
        "volts,seconds\n1.5,0\n-2,1\n3e2,2\n",
        '\ufeff"volts";"x"\r\n"1.5";"a"\r\n"-2";"b"\r\n\r\n"3e2";"c"\r\n',
        "1.5 0\n-2\t1\n3e2 2\n",
    ],
)
def test_csv_first_column(tmp_path, text):
    (tmp_path / "a.csv").write_bytes(text.encode())
    np.testing.assert_array_equal(read_recording(tmp_path / "a.csv").samples, [1.5, -2, 300])


def test_without_a_file_an_electrocardiogram():
    pytest.importorskip("pywt")
    recording = read_recording()
    assert recording.samples.shape == (1024,)
    assert recording.sample_rate == 360


def test_without_pywavelets_a_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "pywt.data", None)
    with pytest.raises(RecordingError, match=r"pip install \"trnfft\[demo\]\""):
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
    "not a wav": ("a.wav", _bytes(b"not a wav at all"), "only PCM WAV"),
    "wav cut in the header": ("a.wav", _spoiled_wav(lambda data: data[:30]), "only PCM WAV"),
    "wav cut in the data": ("a.wav", _spoiled_wav(lambda data: data[:-100]), "50 of 100 samples"),
    "float wav": (
        "a.wav",
        _spoiled_wav(lambda data: data[:20] + b"\x03\x00" + data[22:]),
        "only PCM WAV.*unknown format: 3",
    ),
    "40 bit wav": ("a.wav", _spoiled_wav(lambda data: data[:34] + b"\x28\x00" + data[36:]), "40"),
    "wav without samples": ("a.wav", _spoiled_wav(lambda data: data[:40] + bytes(4)), "has 0"),
    "not an npy": ("a.npy", _bytes(b"not an npy at all"), "not a complete .npy array"),
    "cut npy": ("a.npy", _bytes(b"\x93NUMPY\x01\x00v\x00{'descr'"), "not a complete .npy array"),
    "pickled npy": ("a.npy", _npy(np.array([{}, 1], object)), "it holds object"),
    "complex npy": ("a.npy", _npy(np.ones(4, complex)), "complex128"),
    "text npy": ("a.npy", _npy(np.array(["1", "2"])), "not real numbers"),
    "date npy": ("a.npy", _npy(np.zeros(4, "M8[s]")), "not real numbers"),
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
    "gap": ("a.csv", _bytes(b"1,2\n,3\n"), "line 2 has ''"),
    "not text": ("a.csv", _bytes(b"\xff\xfe\x00\x01"), "UTF-8"),
}


@pytest.mark.parametrize("name, write, sentence", BAD.values(), ids=BAD.keys())
def test_bad_file_is_refused_in_one_sentence(tmp_path, name, write, sentence):
    write(tmp_path / name)
    with pytest.raises(RecordingError, match=sentence) as caught:
        read_recording(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)

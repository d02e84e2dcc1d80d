"""stft and istft, compared with torch.stft and torch.istft."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.utils._pytree import tree_leaves

import trnfft
from tests.tolerances import near, sums, together, transforms
from trnfft import ComplexTensor

from .samples import BACKENDS, Noted, random

HANN = torch.hann_window(8, dtype=torch.float64)


def assert_same(actual, expected, n_fft=8, count=1):
    """Compares dtype and values after transforms of frames and products with windows."""
    assert actual.is_complex() == expected.is_complex() and actual.dtype == expected.dtype
    dtype = expected.dtype
    near(actual, expected, together(transforms(4 * n_fft, 2 * count, dtype), sums(4, dtype)))


def torch_istft(*args, **kwargs):
    with warnings.catch_warnings():  # that the frames end before `length`, but only once
        warnings.simplefilter("ignore")
        return torch.istft(*args, **kwargs)


@st.composite
def settings_of_stft(draw):
    n_fft = draw(st.integers(2, 20))
    size = draw(st.none() | st.integers(1, n_fft))
    hop = draw(st.integers(1, size or n_fft))
    window = None
    if draw(st.booleans()):  # positive, so that most of them overlap enough for istft
        window = random(size or n_fft, seed=draw(st.integers(0, 99))).abs() + 0.1
    center = draw(st.booleans())
    return dict(
        n_fft=n_fft,
        hop_length=hop,
        win_length=size,
        window=window,
        center=center,
        normalized=draw(st.booleans()),
    )


shapes = st.sampled_from([(40,), (1, 33), (3, 27)])
pad_modes = st.sampled_from(["constant", "reflect", "replicate", "circular"])


@pytest.mark.filterwarnings("ignore:A window was not provided", "ignore:stft with return_complex")
@given(
    settings_of_stft(),
    shapes,
    pad_modes,
    st.sampled_from(["real", "complex", "complex window"]),
    st.sampled_from([None, False, True]),
    st.booleans(),
    st.sampled_from([None, False, True]),
)
@settings(deadline=None, max_examples=60)
def test_stft_as_torch(chosen, shape, pad_mode, kind, onesided, return_complex, align):
    assume(kind == "real" or not onesided)
    assume(kind != "complex window" or chosen["window"] is not None)
    assume(align is None or not chosen["center"])
    if kind == "complex window":
        chosen["window"] = chosen["window"] * (1 + 0.5j)
    x = random(*shape, dtype=torch.complex128 if kind == "complex" else torch.float64)
    rest = dict(pad_mode=pad_mode, onesided=onesided, align_to_window=align)
    try:
        expected = torch.stft(x, return_complex=return_complex, **chosen, **rest)
    except RuntimeError as error:
        # torch reads one number too far where window and frame cannot have the same middle.
        assume("setStorage" not in str(error))
        raise
    actual = trnfft.stft(x, return_complex=return_complex, **chosen, **rest)
    assert actual.is_complex() == return_complex
    assert_same(actual, expected, chosen["n_fft"])
    if kind == "complex":
        split = ComplexTensor.from_complex(x)
        actual = trnfft.stft(split, return_complex=return_complex, **chosen, **rest)
        assert_same(actual, expected, chosen["n_fft"])


@given(
    settings_of_stft(),
    st.booleans(),
    st.sampled_from([(), (1,), (3,)]),
    st.integers(1, 9),
    st.sampled_from(["real", "both sides", "complex", "complex window"]),
    st.none() | st.integers(0, 80),
)
@settings(deadline=None, max_examples=60)
def test_istft_as_torch(chosen, by_default, batch, frames, kind, length):
    assume(kind != "complex window" or chosen["window"] is not None)
    if kind == "complex window":
        chosen["window"] = chosen["window"] * (1 + 0.5j)
    n_fft = chosen["n_fft"]
    chosen["onesided"] = None if by_default else kind == "real"
    chosen["return_complex"] = kind.startswith("complex")
    # For n_fft = 2 both halves are the spectrum: the default is then two-sided.
    assume(not (by_default and n_fft == 2 and kind == "real"))
    count = n_fft // 2 + 1 if kind == "real" else n_fft
    spectra = random(*batch, count, frames, dtype=torch.complex128)
    try:
        expected = torch_istft(spectra, length=length, **chosen)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            trnfft.istft(spectra, length=length, **chosen)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in (spectra, ComplexTensor.from_complex(spectra)):
            assert_same(trnfft.istft(each, length=length, **chosen), expected, n_fft)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    x = random(40).to(dtype)
    for window in (torch.hann_window(8), torch.hann_window(8).to(dtype)):
        expected = torch.stft(x.float(), 8, window=window.float(), return_complex=True)
        assert_same(trnfft.stft(x, 8, window=window), expected)


def test_dtypes_of_the_window_as_torch():
    x = random(40).float()
    for dtype in (torch.float64, torch.complex64, torch.int64, torch.bool):
        window = torch.ones(8, dtype=dtype)
        expected = torch.stft(x, 8, window=window, return_complex=True)
        assert_same(trnfft.stft(x, 8, window=window), expected)
        split = ComplexTensor.from_complex(window) if dtype.is_complex else window
        assert_same(trnfft.stft(x, 8, window=split), expected)


def test_windows_aligned_with_the_last_samples_too():
    x, window = random(7), torch.tensor([2.0], dtype=torch.float64)
    actual = trnfft.stft(x, 4, 1, 1, window, center=False, onesided=False, align_to_window=True)
    phases = torch.tensor([1, -1j, -1, 1j], dtype=torch.complex128)  # the window is at k = 1
    assert_same(actual, 2 * phases[:, None] * x)


# Errors


REAL, SPECTRA = random(2, 20), random(2, 5, 11, dtype=torch.complex128)


@pytest.mark.parametrize(
    "arguments, name",
    [
        (dict(input=REAL.long()), "input"),
        (dict(input=REAL[None]), "input"),
        (dict(input=REAL[0, 0]), "input"),
        (dict(input=REAL + 0j, onesided=True), "onesided"),
        (dict(window=HANN + 0j, onesided=True), "onesided"),
        (dict(n_fft=0), "n_fft"),
        (dict(n_fft=40, center=False), "n_fft"),
        (dict(hop_length=0), "hop_length"),
        (dict(n_fft=3), "hop_length"),
        (dict(win_length=9), "win_length"),
        (dict(win_length=0), "win_length"),
        (dict(window=HANN[:5]), "window"),
        (dict(window=HANN[None]), "window"),
        (dict(align_to_window=False), "align_to_window"),
        (dict(input=REAL[:, :4]), "[Pp]ad"),
        (dict(pad_mode="mirror"), "mirror"),
    ],
)
def test_errors_of_stft_as_torch(arguments, name):
    arguments = dict(dict(input=REAL, n_fft=8, return_complex=True), **arguments)
    with pytest.raises(RuntimeError):
        torch.stft(**arguments)
    with pytest.raises(RuntimeError, match=name):
        trnfft.stft(**arguments)


@pytest.mark.parametrize(
    "arguments, name",
    [
        (dict(input=SPECTRA.real), "input"),
        (dict(input=SPECTRA[None]), "input"),
        (dict(input=SPECTRA[:0]), "input"),
        (dict(input=SPECTRA[..., :0]), "input"),
        (dict(n_fft=10), "n_fft"),
        (dict(n_fft=5, onesided=True), "n_fft"),
        (dict(hop_length=9), "hop_length"),
        (dict(hop_length=0), "hop_length"),
        (dict(win_length=9), "win_length"),
        (dict(window=HANN[:5]), "window"),
        (dict(window=HANN + 0j), "return_complex"),
        (dict(return_complex=True), "onesided"),
        (dict(window=HANN, center=False), "nonzero overlap add"),
        (dict(window=HANN * 0), "nonzero overlap add"),
        (dict(input=SPECTRA[..., :1]), "no samples"),
        (dict(length=0), "no samples"),
        (dict(length=-1), "no samples"),
    ],
)
def test_errors_of_istft_as_torch(arguments, name):
    arguments = dict(dict(input=SPECTRA, n_fft=8), **arguments)
    with pytest.raises((RuntimeError, TypeError)) as expected:
        torch.istft(**arguments)
    with pytest.raises(expected.type, match=name):
        trnfft.istft(**arguments)


@pytest.mark.parametrize(
    "arguments, name",
    [
        (dict(input=[1.0]), "input"),
        (dict(n_fft=8.0), "n_fft"),
        (dict(hop_length=2.0), "hop_length"),
        (dict(win_length=True), "win_length"),
        (dict(window=[1.0] * 8), "window"),
    ],
)
def test_arguments_of_wrong_types(arguments, name):
    with pytest.raises(TypeError, match=f"argument '{name}'"):
        trnfft.stft(**dict(dict(input=REAL, n_fft=8), **arguments))
    with pytest.raises(TypeError, match=f"argument '{name}'"):
        trnfft.istft(**dict(dict(input=SPECTRA, n_fft=8), **arguments))


def test_a_length_beyond_the_frames_gives_zeros_and_a_warning():
    with pytest.warns(UserWarning, match="zeros follow"):
        x = trnfft.istft(SPECTRA, 8, length=40)
    assert_same(x, torch_istft(SPECTRA, 8, length=40))
    assert torch.equal(x[:, 24:], torch.zeros(2, 16, dtype=torch.float64))


@pytest.mark.filterwarnings("ignore:argument 'length'")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("length", [24, 25, 5000, 10**6])
def test_long_lengths_as_torch_and_no_more_work(backend, length):
    """Of a long result only its zeros are many: all else is of the frames."""
    spectra = SPECTRA.to(torch.complex64)
    with trnfft.backend(backend), Noted() as noted:
        x = trnfft.istft(spectra, 8, window=HANN.float(), length=length)
    assert_same(x, torch_istft(spectra, 8, window=HANN.float(), length=length))
    made = [x for *_, result in noted.calls for x in tree_leaves(result)]
    many = [x.numel() for x in made if isinstance(x, torch.Tensor) and x.numel() >= 2 * 5000]
    assert many == ([2 * length] if length >= 5000 else [])


@pytest.mark.parametrize("backend", ["torch", "nki-sim"])
@pytest.mark.parametrize("length", [2**40, 2**62])
@pytest.mark.parametrize("is_complex", [False, True])
def test_lengths_that_no_memory_holds_are_refused(backend, length, is_complex):
    spectra = random(8, 4, dtype=torch.complex128) if is_complex else SPECTRA
    with trnfft.backend(backend), pytest.raises(RuntimeError, match=f"'length' is {length}.*GiB"):
        trnfft.istft(spectra, 8, length=length, return_complex=is_complex)


@pytest.mark.parametrize("envelope, is_enough", [(1.2e-11, True), (8e-12, False), (0.0, False)])
def test_how_small_squared_windows_may_add_up(envelope, is_enough):
    x, window = random(16), torch.full((8,), envelope**0.5, dtype=torch.float64)
    spectra = trnfft.stft(x, 8, 8, window=window, center=False)
    options = dict(hop_length=8, window=window, center=False)
    for function, input in ((trnfft.istft, spectra), (torch.istft, trnfft.as_native(spectra))):
        if is_enough:
            assert_same(function(input, 8, **options), x, 8, 2)
        else:
            with pytest.raises(RuntimeError):
                function(input, 8, **options)


def test_compiled_code_does_not_read_how_windows_add_up():
    spectra = trnfft.stft(random(16), 8, 8, center=False)
    torch._dynamo.reset()
    compiled = torch.compile(trnfft.istft, fullgraph=True, backend="eager")
    x = compiled(spectra, 8, 8, window=torch.zeros(8, dtype=torch.float64), center=False)
    assert not x.isfinite().any()


def test_meta_tensors_have_no_sums_to_read():
    spectra = trnfft.stft(torch.empty(16, device="meta"), 8)
    assert trnfft.istft(spectra, 8).shape == (16,)


@pytest.mark.parametrize("value", [torch.tensor(True), torch.ones(3), "no", 2], ids=str)
def test_flags_are_bool(value):
    x = torch.ones(64)
    spectra = trnfft.stft(x, 8)
    assert trnfft.stft(x, 8, center=np.bool_(True)).shape == spectra.shape
    names = ("center", "normalized", "onesided", "return_complex")
    for name in (*names, "align_to_window"):
        with pytest.raises(TypeError, match=f"'{name}' is .*, allowed are True and False"):
            trnfft.stft(x, 8, **{name: value})
    for name in names:
        with pytest.raises(TypeError, match=f"argument '{name}' is"):
            trnfft.istft(spectra, 8, **{name: value})


@pytest.mark.parametrize("mode", [None, "x", ["reflect"]], ids=str)
def test_modes_of_padding(mode):
    with pytest.raises(NotImplementedError, match="argument 'pad_mode' is"):
        trnfft.stft(torch.ones(64), 8, pad_mode=mode)


@pytest.mark.parametrize(
    "shape, mode", [((4,), "reflect"), ((3,), "circular"), ((0,), "replicate"), ((0, 9), "reflect")]
)
def test_too_few_samples_to_pad(shape, mode):
    with pytest.raises(RuntimeError, match=r"argument 'input' has shape .*too few samples for 4"):
        trnfft.stft(torch.ones(shape), 8, pad_mode=mode)


@pytest.mark.parametrize(
    "shape, mode", [((5,), "reflect"), ((4,), "circular"), ((1,), "replicate")]
)
def test_just_enough_samples_to_pad(shape, mode):
    x = random(*shape)
    expected = torch.stft(x, 8, pad_mode=mode, window=torch.ones(8).double(), return_complex=True)
    assert_same(trnfft.stft(x, 8, pad_mode=mode), expected)


def test_no_signals_between_zeros():
    assert trnfft.stft(torch.ones(0, 9), 8, pad_mode="constant").shape == (0, 5, 5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("split", [False, True])
def test_istft_under_vmap_takes_windows_of_batches(backend, split):
    windows = torch.stack([HANN, HANN + 0.1]).float()
    spectra = SPECTRA.to(torch.complex64)
    expected = torch.vmap(lambda x, w: torch.istft(x, 8, window=w))(spectra, windows)
    given = trnfft.as_complex_tensor(spectra) if split else spectra
    with trnfft.backend(backend):
        found = torch.vmap(lambda x, w: trnfft.istft(x, 8, window=w))(given, windows)
        assert_same(found, expected)
        both = torch.vmap(lambda x: torch.vmap(lambda w: trnfft.istft(x, 8, window=w))(windows))
        assert_same(both(given)[[0, 1], [0, 1]], expected)  # which torch.istft refuses


@pytest.mark.parametrize("is_batched", [False, True])
def test_istft_under_vmap_checks_windows(is_batched):
    windows = torch.stack([HANN + 0.1, HANN])  # the second one is 0 at the first sample

    def run(x, w):
        return trnfft.istft(x, 8, 8, window=w, center=False)

    with pytest.raises(RuntimeError, match="nonzero overlap add"):
        torch.vmap(run, (0, 0 if is_batched else None))(SPECTRA, windows if is_batched else HANN)

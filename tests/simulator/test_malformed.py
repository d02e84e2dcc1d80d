"""Malformed arguments cause an error that names the argument, its value and what is allowed.

The types are those of the signatures and parameter texts in nki/api/nki/language/__init__.py and
nki/api/nki/isa/__init__.py. Sizes, bounds, axes and strides are ints there, and never floats.
"""

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl

from .conftest import RULE, refuses

X = np.ones((128, 64), np.float32)
NAMED = "argument 'x' of kernel scaled"


def tile():
    return nl.ones((128, 64), nl.float32)


# (the malformed call, what the message begins with)
MALFORMED = [
    (lambda: nl.ndarray(128, nl.float32), "nl.ndarray: shape is 128"),
    (lambda: nl.ndarray(None, nl.float32), "nl.ndarray: shape is None"),
    (lambda: nl.ndarray("ab", nl.float32), "nl.ndarray: shape is 'ab'"),
    (lambda: nl.ndarray((128.0, 64), nl.float32), "nl.ndarray: shape is (128.0, 64)"),
    (lambda: nl.ndarray((4, 4), nl.float32, address=5), "nl.ndarray: address is 5"),
    (lambda: nl.ndarray((4, 4), nl.float32, address=(0, 4.0)), "nl.ndarray: address is (0, 4.0)"),
    (lambda: nl.full((4, 4), "a", nl.float32), "nl.full: fill_value is 'a'"),
    (lambda: nl.zeros_like(5), "nl.zeros_like: x is 5"),
    (lambda: nl.empty_like(5), "nl.empty_like: x is 5"),
    (lambda: nl.load(5), "nl.load: src is 5"),
    (lambda: nl.store(5, tile()), "nl.store: dst is 5"),
    (lambda: nl.copy(5), "nl.copy: x is 5"),
    (lambda: nl.load_transpose2d(5), "nl.load_transpose2d: src is 5"),
    (lambda: nl.shared_constant(5), "nl.shared_constant: constant is 5"),
    (lambda: nl.shared_identity_matrix(4.0), "nl.shared_identity_matrix: n is 4.0"),
    (lambda: nl.device_print("x", 5), "nl.device_print: tensor is 5"),
    (lambda: nl.affine_range(4.0), "nl.affine_range: bounds is (4.0,)"),
    (lambda: nl.fori_loop(0, 4, 5), "nl.fori_loop: body_fun is 5"),
    (lambda: nl.fori_loop(0, 4.0, tile), "nl.fori_loop: a bound is 4.0"),
    (lambda: nl.sum(tile(), None), "nl.sum: axis is None"),
    (lambda: nl.sum(tile(), 1.0), "nl.sum: axis is 1.0"),
    (lambda: nl.max(tile(), 7), "nl.max: axis is 7, but it must be from -2 to 1"),
    (lambda: nl.mean(5, 1), "nl.mean: x is 5"),
    (lambda: nl.var(tile(), None), "nl.var: axis is None"),
    (lambda: nl.softmax(tile(), None), "nl.softmax: axis is None"),
    (lambda: nl.rms_norm(tile(), tile(), 1, 0), "nl.rms_norm: n is 0"),
    (lambda: nl.expand_dims(tile(), None), "nl.expand_dims: axis is None"),
    (lambda: nl.broadcast_to(tile(), 5), "nl.broadcast_to: shape is 5"),
    (lambda: tile()[0:4.5], "NkiTensor: the index of dimension 0 is slice(0, 4.5, None)"),
    (lambda: tile()[:, 0:8:2.0], "NkiTensor: the index of dimension 1 is slice(0, 8, 2.0)"),
    (lambda: tile()[nl.ds(0.0, 4)], "nl.ds: start is 0.0"),
    (lambda: tile()[:, nl.ds(0, 4.0)], "nl.ds: size is 4.0"),
    (lambda: tile().slice(1, 0.0, 4.0), "NkiTensor.slice: bounds is (0.0, 4.0, 1)"),
    (lambda: tile().select(None, 1), "NkiTensor: dim is None"),
    (lambda: tile().reshape(128), "NkiTensor: shape of reshape is 128"),
    (lambda: tile().reshape((128, 8.0, 8)), "NkiTensor: shape of reshape is (128, 8.0, 8)"),
    (lambda: tile().reshape_dim(1, 8), "NkiTensor: shape of reshape_dim(dim=1) is 8"),
    (lambda: tile().permute(0), "NkiTensor: dims of permute is 0"),
    (lambda: tile()[:, 0:1].broadcast(1, 4.0), "NkiTensor: size of broadcast is 4.0"),
    (lambda: tile()[:, 0:1].broadcast(1, 0), "NkiTensor: size of broadcast is 0"),
    (lambda: tile().expand_dim(1.0), "NkiTensor: dim of expand_dim is 1.0"),
    (lambda: tile().rearrange(3, 4), "NkiTensor: a pattern of rearrange is 3"),
    (lambda: tile().ap([8, 8]), "NkiTensor: pattern of ap is [8, 8]"),
    (lambda: tile().ap(8), "NkiTensor: pattern of ap is 8"),
    (lambda: tile().ap([[64, 128], [1, 4.0]]), "NkiTensor: pattern of ap is [[64, 128], [1, 4.0]]"),
    (lambda: tile().ap([[64, 128], [1, 4]], offset=1.0), "NkiTensor: offset of ap is 1.0"),
    (lambda: tile().ap([[64, 128], [1, 4]], scalar_offset=2), "NkiTensor: scalar_offset of ap is"),
    (
        lambda: nl.zeros((8, 4), "int32", nl.hbm).vector_select(0, 3),
        "NkiTensor: vector_offset of vector_select",
    ),
    (lambda: nisa.tensor_reduce(tile(), nl.add, tile(), None), "nisa.tensor_reduce: axis is None"),
    (lambda: nisa.dma_transpose(tile(), tile(), axes=5), "nisa.dma_transpose: axes is 5"),
    (
        lambda: nisa.nc_stream_shuffle(tile(), tile(), shuffle_mask=5),
        "nisa.nc_stream_shuffle: shuffle_mask is 5, but it must be a list of 32 ints",
    ),
    (
        lambda: nisa.nc_stream_shuffle(tile(), tile(), [0.5] * 32),
        "nisa.nc_stream_shuffle: shuffle_mask is [0.5, ",
    ),
    (lambda: nisa.iota(tile(), 5), "nisa.iota: pattern is 5"),
    (lambda: nisa.iota(tile(), [[1, 64.0]]), "nisa.iota: pattern is [1, 64.0]"),
    (lambda: nisa.memset(tile(), 0.0).depends_on(5), "depends_on: a producer is 5"),
]


@pytest.mark.parametrize(("call", "message"), MALFORMED, ids=[m for _, m in MALFORMED])
def test_malformed_arguments_are_named(call, message):
    with pytest.raises(RULE) as raised:
        nki_sim.simulate(lambda: call() and None)()
    assert str(raised.value).startswith(message)


def test_well_formed_arguments_pass():
    def kernel():
        t = tile()
        assert nl.ndarray([np.int64(8), 4], nl.float32).shape == (8, 4)
        assert t[0 : np.int32(4), nl.ds(np.int64(2), 8)].shape == (4, 8)
        assert t.ap(pattern=[(64, 128), (2, 32)]).shape == (128, 32)
        assert nl.sum(t, [1], keepdims=True).shape == nl.sum(t, -1, keepdims=True).shape
        nisa.nc_stream_shuffle(nl.ndarray((128, 64), nl.float32), t, np.arange(32))
        assert list(nl.affine_range(np.int64(4))) == [0, 1, 2, 3]

    nki_sim.simulate(kernel)()


# "The bracket syntax must contain only one number" (nki/get-started/about/lnc.rst); tuples are
# the launch grid that nl.program_id(axis) speaks of.
@pytest.mark.parametrize("grid", [[1, 1], [1], 1.0, True, None, "1", 0, -1, (), (1, 1.0)], ids=str)
def test_a_launch_grid_is_a_number_of_cores(grid):
    kernel = nki.jit(lambda x: None)
    with pytest.raises(TypeError, match="argument 'grid' is .* allowed is the number of cores"):
        kernel[grid]
    kernel[1](X)
    kernel[(np.int64(1),)](X)


# A constant of a kernel's module is no kernel, although `is` finds it there.
@pytest.mark.parametrize("thing", [3, 4, 128, 512, None, True, "float32", nl.NKIObject], ids=str)
@pytest.mark.parametrize("run", [nki_sim.simulate, nki_sim.dry_run])
def test_only_kernels_are_simulated(run, thing):
    with pytest.raises(TypeError, match="argument 'kernel' is .* allowed are functions"):
        run(thing)


def test_only_functions_are_jitted():
    with pytest.raises(TypeError, match="argument 'fn' of nki.jit is 3"):
        nki.jit(3)


@pytest.mark.parametrize("edges", [5, [5], [("a", 5)], [("a",)], [(1, "b")], "ab"], ids=str)
def test_edges_of_a_schedule_are_names(edges):
    with pytest.raises(TypeError, match="argument 'edges' of with_schedule"):
        nki.jit(lambda: None).with_schedule(edges)


def test_shapes_of_a_dry_run_are_ints():
    for shape in ((4.5, 4), (0, 4)):
        refuses(
            "the shape of argument 'x' of kernel scaled is",
            nki_sim.dry_run,
            scaled,
            (shape, "float32"),
        )


def scaled(x, scale=1.0, *, names=()):
    """A kernel with a tensor and constants."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), scale))
    return out


RUNS = [
    nki_sim.simulate(scaled),
    nki.jit(scaled)[1],
    lambda *a, **k: nki_sim.dry_run(scaled, *a, **k),
]


@pytest.mark.parametrize("run", RUNS, ids=["simulate", "launch", "dry_run"])
@pytest.mark.parametrize(
    "junk",
    [
        *(None, "abc", b"ab", 3, 1.5, float("nan"), 10**5000, {}, {1}, object(), len, int),
        *(slice(3), (1,)),
    ],
    ids=lambda junk: type(junk).__name__,
)
def test_what_is_no_tensor_is_named(run, junk):
    for call in (lambda: run(junk), lambda: run(x=junk)):
        with pytest.raises(TypeError) as raised:
            call()
        text = str(raised.value)
        assert text.startswith("argument 'x' of kernel scaled is ") and len(text) < 400
        assert f"of type {type(junk).__name__}, but the kernel uses its attribute 'shape'" in text
        assert "which only a tensor has: pass a NumPy array" in text


def test_other_errors_of_attributes_are_the_kernels_own():
    def kernel(x, scale):
        scale.unknown  # noqa: B018  (no tensor has that)

    with pytest.raises(AttributeError, match="unknown"):
        nki_sim.simulate(kernel)(X, 2.0)

    def other(x, scale):
        (1, 2).shape  # noqa: B018  (which is no argument)

    with pytest.raises(AttributeError, match="'tuple' object has no attribute 'shape'"):
        nki_sim.simulate(other)(X, 2.0)


# float64 is what NumPy makes by default; >f4 is in an order of bytes that no chip has.
@pytest.mark.parametrize("dtype", ["complex64", "float64", "uint64", "O", "U1", "M8[s]", ">f4"])
def test_dtypes_that_no_chip_has_are_named(dtype):
    x = np.zeros((4, 4)).astype(dtype)
    launch = nki_sim.simulate(scaled)
    for call in (lambda: launch(x), lambda: launch(x=x)):
        with pytest.raises(TypeError, match=f"{NAMED} is an array of .* the chip does not have"):
            call()
    with pytest.raises(TypeError, match=f"{NAMED}: dtype .* is not a dtype of NKI, allowed are"):
        nki_sim.dry_run(scaled, x)


def test_tensors_that_numpy_does_not_read_are_named():
    torch = pytest.importorskip("torch")
    complex_tensor = pytest.importorskip("trnfft").ComplexTensor(torch.ones(4), torch.ones(4))
    for x in (torch.ones(4, 4, device="meta"), torch.eye(4).to_sparse(), torch.eye(4).to_mkldnn()):
        with pytest.raises(TypeError, match=f"{NAMED} is a Tensor of torch.float32 on device"):
            nki_sim.simulate(scaled)(x)
    for z in (torch.ones(4, dtype=torch.complex64), complex_tensor):
        refused = f"{NAMED} is an array of complex64.*: pass the real and the imaginary part"
        with pytest.raises(TypeError, match=refused):
            nki_sim.simulate(scaled)(z)


def test_an_argument_is_named_as_the_kernel_names_it():
    def pairs(scale, *tensors):
        return None

    wrong = X.astype(np.float64)
    for args, name in (
        ((1.0, X, wrong), "tensors[1]"),
        ((1.0, (X, (2, wrong))), "tensors[0][1][1]"),
        (((wrong,),), "scale[0]"),
    ):
        with pytest.raises(TypeError) as raised:
            nki_sim.simulate(pairs)(*args)
        assert str(raised.value).startswith(f"argument '{name}' of kernel pairs is an array of")
    refuses(
        f"the size of {NAMED} is .* at most 2 GiB",
        nki_sim.dry_run,
        scaled,
        ((1 << 20, 1024), "float32"),
    )


def test_an_operand_that_is_an_argument_is_named():
    def copies(x, other=None):
        tile = nl.ndarray((128, 64), nl.float32)
        nisa.dma_copy(tile, other if x is None else x)
        return tile

    for x in (3.5, "abc", np.float32(3), {"a": X}):
        says = (
            "src is .*, but it must be a tensor.*and argument 'x' of kernel copies has this value"
        )
        refuses(f"^(?=.{{0,399}}$).*{says}: pass a NumPy array", nki_sim.simulate(copies), x)
    for args in ((None,), (3.5, 3.5)):  # the argument is absent, or could be any of two
        refuses("but it must be a tensor .NkiTensor.$", nki_sim.simulate(copies), *args)


@pytest.mark.parametrize("run", RUNS, ids=["simulate", "launch", "dry_run"])
@pytest.mark.parametrize(
    ("args", "kwargs", "what"),
    [
        ((), {}, "missing a required argument: 'x'"),
        ((X, 1, 2), {}, "too many positional arguments"),
        ((X,), {"other": 1}, "unexpected keyword argument 'other'"),
        ((X,), {"x": X}, "multiple values for argument 'x'"),
    ],
)
def test_arguments_that_a_kernel_has_not(run, args, kwargs, what):
    with pytest.raises(TypeError) as raised:
        run(*args, **kwargs)
    text = str(raised.value)
    assert text.startswith("kernel scaled: ") and what in text
    assert text.endswith("the kernel's arguments are (x, scale=1.0, *, names=())")


def test_two_cores_name_arguments_too(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    with pytest.raises(TypeError, match="argument 'x' of kernel scaled is None"):
        nki.jit(scaled)[2](None)
    with pytest.raises(TypeError, match="kernel scaled: missing a required argument: 'x'"):
        nki.jit(scaled)[2]()

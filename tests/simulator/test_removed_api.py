"""Names that NKI no longer has, or never had, cause an error that says what to write instead."""

import importlib.util
import inspect
import subprocess
import sys

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_sim
from nki_sim import isa, language
from nki_sim.base import removed_api
from nki_sim.errors import NkiSimulationWarning, NkiValidationError

X = np.ones((128, 64), np.float32)


def tile(dtype=nl.float32):
    return nl.ndarray((128, 64), dtype=dtype, buffer=nl.sbuf)


def loaded(x):
    found = tile()
    nisa.dma_copy(dst=found, src=x)
    return found


def in_a_loop(act):
    def body(i):
        act(i)

    nl.fori_loop(0, 2, body)


CASES = {
    "nl.arange was removed in NKI 0.2: write slices": lambda x: nl.arange(4),
    "nl.par_dim was removed in NKI 0.2: write a list of tiles": lambda x: nl.par_dim(128),
    "nl.fp32 was removed in NKI 0.2": lambda x: nl.fp32.min,
    "NKI 0.7 has no nl.sigmoidd; did you mean nl.sigmoid": lambda x: nl.sigmoidd,
    "NKI 0.7 has no nisa.qqq$": lambda x: nisa.qqq,
    "nisa.tensor_copy_dynamic_src was removed in NKI 0.4": lambda x: nisa.tensor_copy_dynamic_src,
    "nki.benchmark was removed in NKI 0.2: .*nki-sim profile": lambda x: nki.benchmark,
    "'dtype'; dtype was removed in NKI 0.2: write dst=nl.ndarray": lambda x: nisa.tensor_copy(
        dst=loaded(x), src=loaded(x), dtype=nl.float32
    ),
    "'mask'; mask was removed in NKI 0.2: write a slice": lambda x: nl.load(x, mask=None),
    "'imm'; imm was removed in NKI 0.3: write src=": lambda x: nisa.register_move(
        nisa.register_alloc(), imm=4
    ),
    "'dst_rmw_op'; dst_rmw_op was removed in NKI 0.3: write nisa.dma_compute": lambda x: (
        nisa.dma_copy(dst=tile(), src=x, dst_rmw_op=nl.add)
    ),
    "NKI 0.7 has nisa.reciprocal.dst, data.*it returns no tensor": lambda x: nisa.reciprocal(x),
    "'sorc'; NKI 0.7 has nisa.dma_copy.dst, src": lambda x: nisa.dma_copy(dst=tile(), sorc=x),
    "`.` of sbuf tile 128x64 float32.* so write nisa.tensor_scalar.dst, data, op0=nl.add, ": (
        lambda x: loaded(x) + 1
    ),
    "nisa.tensor_tensor.dst, data1, data2, op=nl.subtract.": lambda x: 2 - loaded(x),
    "or nl.multiply.x, y., which returns a new tile": lambda x: np.float32(2) * loaded(x),
    "`exp` of .*write nl.exp.x., which returns a new tile": lambda x: np.exp(loaded(x)),
    "`/` of .*multiply by a reciprocal, which nisa.reciprocal": lambda x: 1 / loaded(x),
    "`@` of .*write nisa.nc_matmul.dst, stationary, moving.": lambda x: loaded(x) @ loaded(x),
    "must be in SBUF or PSUM: write to a tile, and copy the tile to HBM by nisa.dma_copy": (
        lambda x: nisa.activation(dst=x, op=nl.exp, data=loaded(x))
    ),
    "no attribute 'astype': write nisa.tensor_copy.dst, src": lambda x: x.astype(nl.bfloat16),
    "no attribute 'sum': write nisa.tensor_reduce.dst=dst, op=nl.add": lambda x: loaded(x).sum(1),
    "no attribute 'T': write nisa.nc_transpose.dst, data. for a tile, or x.permute": lambda x: x.T,
    "a tensor in a kernel has no attribute 'strange'$": lambda x: x.strange,
    "a tensor is not iterable: write `for i in range.x.shape.0..:`": lambda x: list(x),
    "`%` of .*such as nisa.tensor_tensor.*or of nl, such as nl.add": lambda x: loaded(x) % 2,
    "`concatenate` of .*compute with functions": lambda x: np.concatenate([loaded(x)]),
    "`-` of shared_hbm tile .*. Copy the tensor into SBUF first": lambda x: x - 1,
    "elements are not known while": lambda x: loaded(x)[0, 0] > 1,
    "are not known while the kernel is built": lambda x: float(loaded(x)[0, 0]),
    "value is not known.*scalar_offset=register": lambda x: nisa.register_alloc(1) * 4,
    "no arithmetic, no comparisons and no int": lambda x: nisa.register_alloc(1) < 4,
    "register's value is not known while": lambda x: range(nisa.register_alloc(1)),
    r"supports only \+, - and \* with ints": lambda x: in_a_loop(lambda i: i // 4),
    "pass it to x.ap.pattern, scalar_offset=scalar": lambda x: in_a_loop(lambda i: range(i)),
    "select elements by nl.where, or loop by": lambda x: bool(loaded(x)),
    "load it by nisa.dma_copy first": lambda x: nisa.activation(dst=tile(), op=nl.exp, data=x),
}


@pytest.mark.parametrize("message", CASES)
def test_the_message_says_what_to_write(message):
    with pytest.raises((AttributeError, TypeError, NkiValidationError), match=message):
        nki.jit(CASES[message])(X)


def test_a_helpers_own_type_error_is_not_explained():
    def helper(first, second):
        return first

    def kernel(x):
        helper(x)

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'second'$"):
        nki.jit(kernel)(X)


def test_modules_still_answer_like_modules():
    assert not hasattr(nl, "arange") and hasattr(nl, "add")
    assert getattr(nisa, "no_such", 3) == 3


def test_what_was_removed_is_not_there_today():
    for path in removed_api.NAMES:
        module, _, name = path.rpartition(".")
        known = {"nki": nki, "nki.language": language, "nki.isa": isa}[module]
        if removed_api.NAMES[path].since < "0.7":
            assert name not in vars(known), path
    for function, keyword in removed_api._ARGUMENTS:
        found = getattr(isa, function, None) or getattr(nki, function)
        if function != "jit":
            assert keyword not in inspect.signature(found).parameters, (function, keyword)


@pytest.mark.skipif(bool(importlib.util.find_spec("neuronxcc")), reason="it is installed")
def test_neuronxcc_says_what_to_import():
    code = (
        "import importlib.util\n"
        "from nki_sim import install\n"
        "install()\n"
        "assert importlib.util.find_spec('neuronxcc') is None\n"
        "import neuronxcc.nki"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = ran.stderr.splitlines()[-1]
    if importlib.util.find_spec("neuronxcc") is None:
        assert last.startswith(
            "ModuleNotFoundError: No module named 'neuronxcc': neuronxcc.nki was"
        )
        assert "removed in NKI 0.4: write import nki" in last


@pytest.mark.lenient
@pytest.mark.parametrize("command", ["idle", "reduce"])
def test_accumulators_that_nothing_has_reset_are_told(command):
    def kernel(x):
        data = loaded(x)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=data,
            op=nl.exp,
            data=data,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=getattr(nisa.reduce_cmd, command),
        )

    with pytest.warns(
        NkiSimulationWarning, match=f"is {command}, but nothing has reset the accumulator"
    ):
        nki.jit(kernel)(X)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("from nki.language import arange", "nki.language.arange was removed in NKI 0.2"),
        ("from nki import benchmark", "nki.benchmark was removed in NKI 0.2"),
        ("from nki.isa import tensor_cpy", r"no nisa.tensor_cpy; did you mean nisa.tensor_copy\?"),
        ("import nki.compiler", "nki.compiler was removed in NKI 0.2"),
        ("from nki.isa import scalar_load", "NKI 0.6 has no nisa.scalar_load, which exists since"),
    ],
)
@pytest.mark.usefixtures("parsed")
def test_imports_of_removed_names_say_what_to_write(monkeypatch, statement, said):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    nki_sim.install()
    with pytest.raises(ImportError, match=said):
        exec(statement, {})
    assert importlib.util.find_spec("nki.compiler") is None
    exec("from nki.language import add, exp", {})


def test_names_of_a_release_are_imported_in_it(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    nki_sim.install()
    names = {}
    exec("from nki.isa import scalar_load; from nki.language import tiles, int64", names)
    exec("import nki.compiler; from nki.compiler import CompileConfig", names)
    assert names["tiles"] is nl.tiles and names["CompileConfig"]().barrier_check is None
    assert names["nki"].compiler is sys.modules["nki.compiler"]
    with pytest.raises(ImportError, match="cannot import name 'sbuf'"):
        exec("from nki.compiler import sbuf", names)

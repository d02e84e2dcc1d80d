"""The differences between the releases of NKI that the simulator follows."""

import numpy as np
import pytest

import nki_sim
from nki_sim import hardware
from nki_sim.base import releases
from nki_sim.import_nki import nki_finder

nki_sim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

from .conftest import refuses  # noqa: E402

X = np.arange(256, dtype=np.float32).reshape(128, 2)


@pytest.fixture(params=releases.RELEASES)
def release(request):
    with releases.select(request.param):
        yield request.param


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.dma_copy(dst=out, src=tile)
    return out


def kernel_of(body):
    """A kernel that runs a function and copies its input."""

    def kernel(x):
        body()
        return copied(x)

    return nki.jit(kernel)


def test_the_version_and_the_names_are_those_of_the_release(release):
    assert nki.__version__ == f"{release}.0"
    for module, name in ((nl, "tiles"), (nl, "int64"), (nisa, "scalar_load"), (nki, "compiler")):
        assert hasattr(module, name) == (release == "0.7")
    if release == "0.6":
        for module, name in ((nl, "nl.alloc_tiles"), (nisa, "nisa.NkiScalar")):
            says = f"NKI 0.6 has no {name}, which exists since NKI"
            with pytest.raises(AttributeError, match=says):
                getattr(module, name.partition(".")[2])
        with pytest.raises(AttributeError, match=r"nki.compiler was removed in NKI 0.2"):
            _ = nki.compiler
        with pytest.raises(TypeError, match="'int64' is not a dtype of NKI"):
            kernel_of(lambda: nl.ndarray((1, 1), "int64", buffer=nl.sbuf))(X)


def test_an_unknown_name_is_of_the_release(release):
    says = f"NKI {release} has no nl.ndaray; did you mean nl.nd"
    with pytest.raises(AttributeError, match=says):
        _ = nl.ndaray


def test_a_loop_of_python_over_registers_is_of_the_parser(release):
    def dynamic():
        for _ in nl.dynamic_range(2):
            pass

    def conditional():
        reg = nisa.register_alloc(1)
        while reg:
            nisa.register_move(reg, 0)

    if release == "0.6":
        with pytest.warns(DeprecationWarning, match="nl.dynamic_range is deprecated"):
            kernel_of(dynamic)(X)
        kernel_of(conditional)(X)
        return
    for body, said in (
        (dynamic, "nl.dynamic_range was removed in NKI 0.7: write nl.fori_l"),
        (conditional, "`while reg:` was removed in NKI 0.7: write nl.while_loop"),
    ):
        with pytest.raises(TypeError, match=said):
            kernel_of(body)(X)


@pytest.mark.parametrize("name", ["affine_range", "sequential_range", "static_range"])
def test_ranges_are_pythons(release, name, recwarn):
    found = []
    kernel_of(lambda: found.extend(getattr(nl, name)(1, 7, 2)))(X)
    assert found == [1, 3, 5]
    said = [str(w.message) for w in recwarn if w.category is DeprecationWarning]
    assert bool(said) == (release == "0.7")
    if said:
        assert said[0].startswith(f"nl.{name} is deprecated since NKI 0.7") and len(said) == 1
        assert recwarn[0].filename == __file__


def test_a_bracket_is_deprecated(release, recwarn):
    with hardware.select(hardware.TRN2):
        np.testing.assert_array_equal(copied[2](X), X)
        np.testing.assert_array_equal(copied.with_programs(2)(X), X)
    said = [str(w.message) for w in recwarn if w.category is DeprecationWarning]
    expected = "kernel[2] is deprecated since NKI 0.7: set NEURON_LOGICAL_NC_CONFIG=2, and call th"
    assert [text[: len(expected)] for text in said] == [expected] * (release == "0.7")


def test_a_launch_has_the_degree_of_the_variable(release, monkeypatch):
    seen = []

    def note():
        seen.append((nl.num_programs(0), nl.program_ndim()))

    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    kernel = kernel_of(note)
    kernel(X)
    assert seen.pop() == (1, 0)
    monkeypatch.setenv(hardware.LNC_VARIABLE, "2")
    kernel(X)
    assert seen == ([(2, 1)] * 2 if release == "0.7" else [(1, 0)])
    seen.clear()
    nki_sim.dry_run(nki.jit(lambda x: note()), (X.shape, "float32"))
    assert seen == ([(2, 1)] * 2 if release == "0.7" else [(1, 0)])


@pytest.mark.filterwarnings("ignore:kernel:DeprecationWarning")
def test_a_bracket_that_differs_from_the_variable_is_refused(release, monkeypatch):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    monkeypatch.setenv(hardware.LNC_VARIABLE, "2")
    np.testing.assert_array_equal(copied[2](X), X)
    np.testing.assert_array_equal(copied.with_programs(1)(X), X)
    if release == "0.6":
        np.testing.assert_array_equal(copied[1](X), X)
        return
    for launch in (copied[1], copied[1].with_schedule([])):
        refuses(r"kernel\[1\] is 1, .*NCC_EVRF066", launch, X)


def test_a_registers_value_is_not_known(release):
    for operate in (lambda r: r + 1, lambda r: 2 * r, lambda r: -r, lambda r: r < 2, int, range):
        with pytest.raises(TypeError, match="value is not known while the kernel is built"):
            kernel_of(lambda operate=operate: operate(nisa.register_alloc(1)))(X)


def test_the_body_of_a_loop_gets_what_the_release_gives(release):
    seen = []

    def loop():
        nl.fori_loop(0, 2, lambda i: seen.append(type(i).__name__) if not seen else None)
        nl.fori_loop(0, nisa.register_alloc(1), lambda i: names.append(type(i).__name__))

    names = []
    with pytest.raises(nki_sim.NkiValidationError, match="cannot change Python state"):
        kernel_of(loop)(X)  # it does, to see it
    assert seen == ["NkiScalar" if release == "0.7" else "VirtualRegister"]
    with pytest.raises(nki_sim.NkiValidationError, match="cannot change Python state"):
        kernel_of(lambda: nl.fori_loop(0, nisa.register_alloc(1), lambda i: names.append(i)))(X)
    assert isinstance(names[0], nisa.VirtualRegister)


def test_configurations_are_checked(release):
    if release == "0.6":
        with pytest.raises(ImportError, match="nki.compiler was removed|cannot import name"):
            from nki.compiler import CompileConfig
        with pytest.raises(TypeError, match="no argument 'compile_config' in NKI 0.6"):
            nki.jit(copied.func, compile_config=True)
        return
    from nki.compiler import AddressRotation, CompileConfig, SpecializationConfig

    config = CompileConfig(barrier_check=True, address_rotation=AddressRotation.DISABLE)
    one = nki.jit(compile_config=config, specialization_config=SpecializationConfig())(copied.func)
    np.testing.assert_array_equal(one(X), X)
    for make in (
        lambda: CompileConfig(dead_code_elim=1),
        lambda: CompileConfig(address_rotation=True),
        lambda: CompileConfig(speed=3),
        lambda: CompileConfig(True),
        lambda: SpecializationConfig(allow_nested_config_override="yes"),
        lambda: nki.jit(compile_config=SpecializationConfig())(copied.func),
        lambda: nki.jit(copied.func, specialization_config={}),
    ):
        with pytest.raises(TypeError):
            make()
    says = "nki.compiler has no Compile: its names are AddressRotation"
    with pytest.raises(AttributeError, match=says):
        _ = nki.compiler.Compile


def test_a_ring_of_ones_own_excludes_an_automatic_one(monkeypatch):
    monkeypatch.setenv("NKI_PREFETCH_RING_SIZE", "4")
    with pytest.raises(ValueError, match="unset NKI_PREFETCH_RING_SIZE"):
        nki.compiler.CompileConfig(prefetch_auto=True)


def test_the_configuration_of_a_kernel_inside_of_another():
    from nki.compiler import CompileConfig, SpecializationConfig

    inner = nki.jit(compile_config=CompileConfig(barrier_check=True))(copied.func)

    def outer(x):
        return inner(x)

    same = nki.jit(compile_config=CompileConfig(barrier_check=True))(outer)
    np.testing.assert_array_equal(same(X), X)
    with pytest.raises(ValueError, match=r"copied.* which another kernel calls, has CompileConfig"):
        nki.jit(outer)(X)
    allowing = SpecializationConfig(allow_nested_config_override=True)
    with pytest.warns(UserWarning, match="configuration of the calling kernel holds"):
        nki.jit(specialization_config=allowing)(outer)(X)
    np.testing.assert_array_equal(inner(X), X)


def test_the_annotation_of_the_documentation():
    def annotated(x: nl.NkiTensor, n: int = 2) -> nl.NkiTensor:
        return copied(x.data)

    np.testing.assert_array_equal(nki.jit(annotated)(X), X)
    with pytest.raises(AttributeError, match="no attribute 'data' in NKI 0.6"):
        nki.simulate(annotated, release="0.6")(X)


def test_simulate_takes_a_release():
    def comprehending(x):
        return copied([x for _ in range(1)][0])

    assert nki_finder.SIMULATOR_VARIABLE  # the module that answers `import nki`
    seen = []
    nki_sim.simulate(kernel_of(lambda: seen.append(nki.__version__)), release="0.6")(X)
    nki_sim.simulate(comprehending)(X)
    assert seen == ["0.6.0"] and nki.__version__ == "0.7.0"
    with pytest.raises(ValueError, match="argument 'release' is '1', allowed is '0.6' or '0.7'"):
        nki_sim.simulate(comprehending, release="1")


def test_all_names_of_the_release_come_with_a_star(release):
    names = {}
    exec("from nki.language import *; from nki.isa import *", names)
    assert names["add"] is nl.add
    for name in ("tiles", "int64", "scalar_load", "NkiScalar"):
        assert (name in names) == (release == "0.7")
    assert ("tiles" in dir(nl)) == (release == "0.7") and "ndarray" in dir(nl)


def test_a_bracket_is_of_the_release_of_its_kernel(recwarn):
    with hardware.select(hardware.TRN2):
        nki.simulate(copied, release="0.6")[2](X)
        assert not [w for w in recwarn if w.category is DeprecationWarning]
        with releases.select("0.6"):
            nki.simulate(copied, release="0.7")[2](X)
    assert [w for w in recwarn if w.category is DeprecationWarning]


@pytest.mark.parametrize("kind", ["a generator", "an async function"])
def test_a_kernel_whose_call_runs_nothing_is_refused(kind):
    def generating(x):
        yield copied(x)

    async def waiting(x):
        return copied(x)

    kernel = generating if kind == "a generator" else waiting
    for launch in (nki.jit(kernel), lambda x: nki_sim.dry_run(kernel, x)):
        with pytest.raises(TypeError, match=f"is {kind}, and a call of it runs nothing"):
            launch(X)


@pytest.mark.parametrize(
    ("made", "advice"),
    [
        (lambda: nisa.register_alloc(1), "return a tensor in which the kernel has"),
        (
            lambda: nl.alloc_tiles(
                tile_shape=(1, 1), element_shape=(1, 1), buffer=nl.sbuf, dtype="int32"
            ),
            "return the grid's .data",
        ),
    ],
)
def test_a_kernel_returns_tensors(made, advice):
    for result in (made, lambda: [made()], lambda: {"a": made()}):
        with pytest.raises(TypeError, match=f"the kernel returns .*: {advice}"):
            nki.jit(lambda x, result=result: result())(X)
        with pytest.raises(TypeError, match=advice), hardware.select(hardware.TRN2):
            nki.jit(lambda x, result=result: result()).with_programs(2)(X)


def test_annotations_that_are_texts_are_checked():
    from nki_sim import typing as nt

    def kernel(x):
        return copied(x)

    kernel.__annotations__ = {"x": "nt.tensor[128, 3]"}
    kernel.__globals__["nt"] = nt
    with pytest.raises(TypeError, match=r"'x' has shape \(128, 2\), but its annotation is tensor"):
        nki.jit(kernel)(X)
    kernel.__annotations__ = {"x": "Absent[int]"}
    np.testing.assert_array_equal(nki.jit(kernel)(X), X)


def test_int64_is_not_for_psum():
    with pytest.raises(nki_sim.NkiValidationError, match="int64 in PSUM, but tensors of int64 are"):
        kernel_of(lambda: nl.ndarray((1, 1), nl.int64, buffer=nl.psum))(X)

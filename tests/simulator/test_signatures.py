"""Every documented function of nki.isa and nki.language exists with the documented signature."""

import inspect
import re
from enum import Enum

import ml_dtypes
import numpy as np
import pytest

import nki_sim.isa
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim.base import releases

from .conftest import TARGET, to_hbm

ISA = """
get_nc_sub_version()
get_nc_version()
dma_copy(dst, src, priority=None, oob_mode=oob_mode.error, dge_mode=dge_mode.unknown,
    engine=engine.unknown, name=None)
tensor_copy(dst, src, engine=engine.unknown, name=None)
memset(dst, value, engine=engine.unknown, name=None)
tensor_copy_predicated(dst, src, predicate, reverse_pred=False, name=None)
nc_matmul(dst, stationary, moving, is_stationary_onezero=False, is_moving_onezero=False,
    is_transpose=False, accumulate=None, tile_position=(), tile_size=(),
    perf_mode=matmul_perf_mode.none, name=None)
nc_matmul_mx(dst, stationary, moving, stationary_scale, moving_scale, tile_position=None,
    tile_size=None, accumulate=None, name=None)
nc_transpose(dst, data, engine=engine.unknown, name=None)
dma_transpose(dst, src, axes=None, priority=None, dge_mode=dge_mode.unknown,
    oob_mode=oob_mode.error, name=None)
tensor_tensor(dst, data1, data2, op, engine=engine.unknown, name=None)
tensor_scalar(dst, data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False,
    engine=engine.unknown, name=None)
tensor_reduce(dst, op, data, axis, negate=False, keepdims=False, name=None)
tensor_partition_reduce(dst, op, data, name=None)
tensor_scalar_cumulative(dst, src, op0, op1, imm0, imm1=None,
    reduce_cmd=reduce_cmd.reset_reduce, name=None)
activation(dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None,
    reduce_cmd=reduce_cmd.idle, name=None)
activation_reduce(dst, op, data, reduce_op, reduce_res, bias=None, scale=1.0, name=None)
activate2(dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, reverse1=False,
    reduce_op=None, reduce_res=None, reduce_cmd=reduce_cmd.idle, name=None)
iota(dst, pattern, offset=0, channel_multiplier=0, name=None)
affine_select(dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op=equal,
    offset=0, name=None)
local_gather(dst, src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, name=None)
nc_n_gather(dst, data, indices, name=None)
bn_stats(dst, data, name=None)
bn_aggr(dst, data, name=None)
tensor_tensor_scan(dst, data0, data1, initial, op0, op1, reverse0=False, reverse1=False,
    name=None)
nc_stream_shuffle(dst, src, shuffle_mask, name=None)
rng(dst, engine=engine.vector, name=None)
dropout(dst, data, prob, name=None)
set_rng_seed(src_seeds, name=None)
rand_set_state(src_seeds, engine=engine.gpsimd, name=None)
rand_get_state(dst, engine=engine.gpsimd, name=None)
rand2(dst, min, max, name=None)
exponential(dst, src, max_value=0.0, reduce_res=None, reduce_cmd=reduce_cmd.idle,
    reduce_init=0.0, name=None)
reciprocal(dst, data, name=None)
max8(dst, src, name=None)
sequence_bounds(dst, segment_ids, name=None)
scalar_tensor_tensor(dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False,
    name=None)
tensor_scalar_reduce(dst, data, op0, operand0, reduce_op, reduce_res=None, reverse0=False,
    reduce_cmd=reduce_cmd.reset_reduce, reduce_init=None, reduce_res_negate=False, name=None)
core_barrier(data, cores, engine=engine.gpsimd, name=None)
dma_compute(dst, srcs, reduce_op, scales=None, unique_indices=True, oob_mode=oob_mode.error,
    name=None)
quantize_mx(dst, src, dst_scale, name=None)
range_select(dst, on_true_tile, comp_op0, comp_op1, bound0, bound1,
    reduce_cmd=reduce_cmd.reset_reduce, reduce_res=None, reduce_op=maximum, range_start=0,
    on_false_value=FP32_MIN, name=None)
select_reduce(dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd=reduce_cmd.idle,
    reduce_op=maximum, reverse_pred=False, name=None)
sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine=dma_engine.dma, name=None)
register_alloc(x=None)
register_move(dst, src)
register_load(dst, src)
register_store(dst, src)
nc_find_index8(dst, data, vals, name=None)
nc_match_replace8(dst, data, vals, imm, dst_idx=None, name=None)
nonzero_with_count(dst, src, index_offset=0, padding_val=-1, name=None)
topk(val_dst, idx_dst, src, n, name=None)
"""
LANGUAGE = """
is_hbm(buffer)
is_on_chip(buffer)
is_psum(buffer)
is_sbuf(buffer)
all(x, axis, dtype=None)
softmax(x, axis=-1, dtype=None)
rms_norm(x, w, axis, n, epsilon=1e-06, dtype=None, compute_dtype=None)
where(condition, x, y, dtype=None)
dropout(x, rate, dtype=None)
ones(shape, dtype, buffer=sbuf, name='')
full(shape, fill_value, dtype, buffer=sbuf, name='')
zeros_like(x, dtype=None, buffer=None, name='')
empty_like(x, dtype=None, buffer=None, name='')
random_seed(seed)
expand_dims(x, axis)
broadcast_to(x, shape, dtype=None)
matmul(x, y, transpose_x=False)
no_reorder()
load_transpose2d(src, dtype=None)
gather_flattened(data, indices, axis=0, dtype=None)
ds(start, size)
affine_range(start, stop=None, step=1)
sequential_range(start, stop=None, step=1)
static_range(start, stop=None, step=1)
dynamic_range(start, stop=None, step=1)
fori_loop(lower, upper, body_fun, step=1)
while_loop(init, body_fun)
ndarray(shape, dtype, buffer=sbuf, name='', address=None)
zeros(shape, dtype, buffer=sbuf, name='')
load(src, dtype=None)
store(dst, value)
program_id(axis=0)
num_programs(axes=0)
program_ndim()
shared_constant(constant)
shared_identity_matrix(n, dtype=uint8, dst=None)
device_print(print_prefix, tensor)
rand(shape, dtype, buffer=sbuf, name='')
"""
UNARY = """
abs square invert logical_not exp log sqrt rsqrt tanh sigmoid relu gelu gelu_apprx_sigmoid
gelu_apprx_tanh gelu_dx gelu_apprx_sigmoid_dx silu silu_dx softplus mish erf erf_dx reciprocal
copy sin cos tan arctan ceil floor trunc negative sign transpose
"""
BINARY = """
add subtract multiply divide maximum minimum abs_max abs_min power equal not_equal less
less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift
logical_and logical_or logical_xor fmod mod
"""
REDUCTION = """
sum max min mean prod var
"""
NKI_TENSOR = """
is_contiguous()
get_pattern()
is_indirect()
permute(dims)
broadcast(dim, size)
expand_dim(dim)
squeeze_dim(dim)
reshape_dim(dim, shape)
flatten_dims(start_dim, end_dim)
reshape(shape)
rearrange(src_pattern, dst_pattern, fixed_sizes=None)
slice(dim, start, end, step=1)
select(dim, index)
vector_select(dim, vector_offset)
ap(pattern, offset=None, scalar_offset=None, vector_offset=None, indirect_dim=0, dtype=None)
view(dtype)
reinterpret_cast(dtype)
indirect(index, num_elem=None)
"""
ENUMS = {
    "engine": {"tensor": 1, "vector": 5, "scalar": 2, "gpsimd": 3, "dma": 4, "sync": 6}
    | {"unknown": 0},
    "reduce_cmd": {"idle": 0, "reset": 1, "reduce": 2, "reset_reduce": 3, "load_reduce": 4},
    "dge_mode": {"unknown": 0, "swdge": 1, "hwdge": 2, "none": 3},
    "oob_mode": {"error": 0, "skip": 1},
    "matmul_perf_mode": {"none": "none", "double_row": "double_row"},
    "nc_version": {"gen2": 2, "gen3": 3, "gen4": 4},
    "dma_engine": {"dma": 1, "gpsimd_dma": 2},
}
DTYPE_NAMES = """
int8 int16 int32 uint8 uint16 uint32 float16 float32 bfloat16 tfloat32 float8_e4m3 float8_e4m3fn
float8_e5m2 float8_e5m2_x4 float8_e4m3fn_x4 float8_e8m0fnu float4_e2m1fn_x4
"""

DTYPES = tuple(re.findall(r"\w+", DTYPE_NAMES))


def parse(table):
    """(name, parameters) of each signature of a table."""
    found = re.findall(r"^(\w+)\((.*?)\)$", table, re.M | re.S)
    return [(name, " ".join(parameters.split())) for name, parameters in found]


def named(names, parameters):
    return [(name, parameters) for name in names.split()]


DOCUMENTED_ISA = parse(ISA)
DOCUMENTED_LANGUAGE = [
    *parse(LANGUAGE),
    *named(UNARY, "x, dtype=None"),
    *named(BINARY, "x, y, dtype=None"),
    *named(REDUCTION, "x, axis, dtype=None, keepdims=False"),
]


def shown(default):
    if isinstance(default, nl.MemoryRegion):
        return str(default.name)
    if isinstance(default, Enum):
        return f"{type(default).__name__}.{default.name}"
    if isinstance(default, float) and default == np.finfo(np.float32).min:
        return "FP32_MIN"
    if default in DTYPES:
        return str(default)
    return str(getattr(default, "name", None) or repr(default))


def signature(function, skip=0):
    parts = []
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        plain = parameter.default is inspect.Parameter.empty
        parts.append(parameter.name if plain else f"{parameter.name}={shown(parameter.default)}")
    return ", ".join(parts)


@pytest.mark.parametrize(
    ("owner", "name", "parameters"),
    [
        *((nisa, *one) for one in DOCUMENTED_ISA),
        *((nl, *one) for one in DOCUMENTED_LANGUAGE),
        *((nl.NkiTensor, *one) for one in parse(NKI_TENSOR)),
    ],
)
def test_signatures(owner, name, parameters):
    assert signature(getattr(owner, name), skip=owner is nl.NkiTensor) == parameters


def test_classes():
    documented = "self, shape, dtype, storage, buffer=sbuf, name=''"
    assert signature(nl.NkiTensor.__init__) == documented
    assert signature(nisa.VirtualRegister) == "state=None, frozen=False"
    assert issubclass(nisa.NkiValidationError, Exception)
    assert list(inspect.signature(nisa.NkiInstruction.depends_on).parameters) == [
        "self",
        "producers",
    ]


NEW_FUNCTIONS = {"scalar_load", "scalar_store", "tiles", "blocks", "alloc_tiles", "alloc_blocks"}


@pytest.mark.parametrize("release", releases.RELEASES)
def test_no_other_functions(release):
    with releases.select(release):
        for module, documented in ((nki_sim.isa, DOCUMENTED_ISA), (nl, DOCUMENTED_LANGUAGE)):
            public = [n for n in dir(module) if not n.startswith("_")]
            names = {n for n in public if inspect.isfunction(getattr(module, n))}
            new = names & NEW_FUNCTIONS
            assert names - new == {name for name, _ in documented}
            assert bool(new) == (release == "0.7")


@pytest.mark.parametrize("name", [n for n, _ in DOCUMENTED_ISA])
def test_every_instruction_needs_a_kernel(name):
    function = getattr(nisa, name)
    parameters = inspect.signature(function).parameters.values()
    required = [p for p in parameters if p.default is p.empty]
    if not required:  # get_nc_version, get_nc_sub_version, register_alloc
        assert function() is not None
        return
    with pytest.raises((RuntimeError, nisa.NkiValidationError)) as failure:
        function(*[None] * len(required))
    assert not isinstance(failure.value, NotImplementedError)


@pytest.mark.parametrize("name", ENUMS)
def test_enums(name):
    assert {m.name: m.value for m in getattr(nisa, name)} == ENUMS[name]


def test_versions_are_ordered():
    gen2, gen3, gen4 = (nisa.nc_version[f"gen{n}"] for n in (2, 3, 4))
    assert gen2 < gen3 <= gen3 < gen4 and gen4 >= gen3 > 2
    assert gen3 >= 3 and gen3 <= 3 and not gen3 > 3 and not gen3 < 3 and not gen2 >= 3
    with pytest.raises(TypeError):
        gen2 < "gen3"  # noqa: B015


def test_engine_aliases():
    for name in ("tensor", "vector", "scalar", "gpsimd", "unknown"):
        assert getattr(nisa, f"{name}_engine") is nisa.engine[name]


def test_memories():
    assert {m.value for m in nl.MemoryRegion} == {"sbuf", "psum", "private_hbm", "shared_hbm"}
    for name, (hbm, chip) in {
        "sbuf": (False, True),
        "psum": (False, True),
        "hbm": (True, False),
        "private_hbm": (True, False),
        "shared_hbm": (True, False),
    }.items():
        region = getattr(nl, name)
        assert (nl.is_hbm(region), nl.is_on_chip(region)) == (hbm, chip)
        assert nl.is_sbuf(region) == (name == "sbuf")
        assert nl.is_psum(region) == (name == "psum")


@pytest.mark.parametrize("name", [*DTYPES, "bool_"])
def test_every_dtype_allocates_and_moves(name):
    dtype = getattr(nl, name)
    assert isinstance(dtype, str)
    zero = 1 if name == "float8_e8m0fnu" else 0  # an exponent alone: it has no zero

    def kernel():
        return to_hbm(nl.full((4, 8), zero, dtype))

    result = nki.simulate(kernel)()
    assert result.shape == (4, 8)
    assert (result.astype(np.float32) == zero).all()
    held = getattr(ml_dtypes, name, None) or {
        "bool_": "bool",
        "tfloat32": "float32",
        "float8_e5m2_x4": "uint32",
        "float8_e4m3fn_x4": "uint32",
        "float4_e2m1fn_x4": "uint16",
    }.get(name, name)
    assert result.dtype == np.dtype(held)


@pytest.mark.parametrize(
    ("target", "generation", "sbuf"),
    [
        *[(t, 2, 192 << 10) for t in ("trn1", "inf2", "gen2")],
        *[(t, 3, 224 << 10) for t in ("trn2", "gen3")],
        *[(t, 4, 256 << 10) for t in ("trn3", "gen4")],
    ],
)
def test_targets(target, generation, sbuf, monkeypatch):
    monkeypatch.setenv(TARGET, target)
    assert nisa.get_nc_version() is nisa.nc_version(generation)
    assert nisa.get_nc_sub_version() == 0
    size = nl.tile_size
    assert (size.pmax, size.gemm_stationary_fmax, size.gemm_moving_fmax) == (128, 128, 512)
    assert (size.psum_bank_fmax, size.psum_fmax, size.psum_bank_fmax_bytes) == (512, 512, 2048)
    assert (size.psum_num_banks, size.bn_stats_fmax) == (8, 512)
    assert size.sbuf_fmax_bytes == size.total_available_sbuf_size == 4 * size.sbuf_fmax == sbuf
    assert size.sbuf_size_bytes == 128 * sbuf
    assert (size.psum_min_align, size.sbuf_min_align) == (4, 1)


def test_jit():
    @nki.jit
    def bare():
        return 1

    @nki.jit(mode="auto", debug_kernel=True, show_compiler_tb=True, experimental_flags="any")
    def configured():
        return 2

    assert (bare(), configured(), bare.__name__) == (1, 2, "bare")
    with pytest.raises(ValueError, match=f"platform_target.* was removed in NKI 0.3.*{TARGET}"):
        nki.jit(platform_target="trn2")
    with pytest.raises(TypeError, match="colour"):
        nki.jit(colour="red")

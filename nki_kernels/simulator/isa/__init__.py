"""nki.isa: the instructions of a NeuronCore, as the Neuron SDK documents them (NKI 0.6)."""

from __future__ import annotations

from ..enums import (
    dge_mode,
    dma_engine,
    engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
)
from ..errors import NkiValidationError
from ..issue import NkiInstruction
from ..register import VirtualRegister
from . import constants
from .cores import core_barrier, sendrecv
from .data_movement import (
    dma_copy,
    dma_transpose,
    memset,
    nc_stream_shuffle,
    tensor_copy,
    tensor_copy_predicated,
)
from .elementwise import (
    activation,
    activation_reduce,
    reciprocal,
    scalar_tensor_tensor,
    tensor_scalar,
    tensor_tensor,
)
from .reductions import (
    bn_aggr,
    bn_stats,
    max8,
    tensor_partition_reduce,
    tensor_reduce,
    tensor_tensor_scan,
)
from .registers import register_alloc, register_load, register_move, register_store
from .selection import affine_select, iota, range_select, select_reduce
from .target import get_nc_sub_version, get_nc_version
from .tensor_engine import nc_matmul, nc_transpose
from .unsupported import (
    activate2,
    dma_compute,
    dropout,
    exponential,
    local_gather,
    nc_find_index8,
    nc_match_replace8,
    nc_matmul_mx,
    nc_n_gather,
    nonzero_with_count,
    quantize_mx,
    rand2,
    rand_get_state,
    rand_set_state,
    rng,
    sequence_bounds,
    set_rng_seed,
    tensor_scalar_cumulative,
    tensor_scalar_reduce,
    topk,
)

# Deprecated names of the engines, still documented.
tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown

"""The module nki.isa: the instructions that the Neuron SDK documents for NKI 0.6 and 0.7."""

from __future__ import annotations

from nki_sim.base.removed_api import no_attribute as _no_attribute
from nki_sim.errors import NkiValidationError
from nki_sim.instructions.instruction import NkiInstruction
from nki_sim.views.register import VirtualRegister
from nki_sim.views.scalar import NkiScalar as _NkiScalar

from . import constants
from .activation_pipeline import activate2
from .constants import *  # noqa: F403
from .cores import core_barrier, sendrecv
from .data_movement import (
    dma_copy,
    dma_transpose,
    memset,
    nc_stream_shuffle,
    tensor_copy,
    tensor_copy_predicated,
)
from .dma_compute import dma_compute
from .elementwise import (
    activation,
    activation_reduce,
    reciprocal,
    scalar_tensor_tensor,
    tensor_scalar,
    tensor_tensor,
)
from .gathers import local_gather, nc_n_gather, sequence_bounds
from .microscaling import nc_matmul_mx, quantize_mx
from .random_numbers import dropout, rand2, rand_get_state, rand_set_state, rng, set_rng_seed
from .reductions import (
    bn_aggr,
    bn_stats,
    max8,
    tensor_partition_reduce,
    tensor_reduce,
    tensor_tensor_scan,
)
from .registers import register_alloc, register_load, register_move, register_store
from .scalars import scalar_load as _scalar_load
from .scalars import scalar_store as _scalar_store
from .search import nc_find_index8, nc_match_replace8, nonzero_with_count, topk
from .selection import affine_select, iota, range_select, select_reduce
from .target import get_nc_sub_version, get_nc_version
from .tensor_engine import nc_matmul, nc_transpose
from .vector_accumulation import exponential, tensor_scalar_cumulative, tensor_scalar_reduce

# Deprecated names of the engines, still documented.
tensor_engine = constants.engine.tensor
vector_engine = constants.engine.vector
scalar_engine = constants.engine.scalar
gpsimd_engine = constants.engine.gpsimd
unknown_engine = constants.engine.unknown

# Names that exist since NKI 0.7 only.
_new = {"NkiScalar": _NkiScalar, "scalar_load": _scalar_load, "scalar_store": _scalar_store}
__getattr__ = _no_attribute(__name__, "nki.isa", _new)


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})

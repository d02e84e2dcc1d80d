"""Documented instructions that the simulator does not have: each raises NotImplementedError."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..enums import engine, oob_mode, reduce_cmd


def _missing(function: Callable[..., None]) -> Callable[..., None]:
    """Replace the body by an error that names the instruction."""

    @functools.wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"nisa.{function.__name__} is not simulated")

    return refuse


# fmt: off
@_missing
def nc_matmul_mx(dst, stationary, moving, stationary_scale, moving_scale, tile_position=None, tile_size=None, accumulate=None, name=None): ...  # noqa: E501
@_missing
def tensor_scalar_cumulative(dst, src, op0, op1, imm0, imm1=None, reduce_cmd=reduce_cmd.reset_reduce, name=None): ...  # noqa: E501
@_missing
def activate2(dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, reverse1=False, reduce_op=None, reduce_res=None, reduce_cmd=reduce_cmd.idle, name=None): ...  # noqa: E501
@_missing
def local_gather(dst, src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, name=None): ...  # noqa: E501
@_missing
def nc_n_gather(dst, data, indices, name=None): ...
@_missing
def rng(dst, engine=engine.vector, name=None): ...
@_missing
def dropout(dst, data, prob, name=None): ...
@_missing
def set_rng_seed(src_seeds, name=None): ...
@_missing
def rand_set_state(src_seeds, engine=engine.gpsimd, name=None): ...
@_missing
def rand_get_state(dst, engine=engine.gpsimd, name=None): ...
@_missing
def rand2(dst, min, max, name=None): ...
@_missing
def exponential(dst, src, max_value=0.0, reduce_res=None, reduce_cmd=reduce_cmd.idle, reduce_init=0.0, name=None): ...  # noqa: E501
@_missing
def sequence_bounds(dst, segment_ids, name=None): ...
@_missing
def tensor_scalar_reduce(dst, data, op0, operand0, reduce_op, reduce_res=None, reverse0=False, reduce_cmd=reduce_cmd.reset_reduce, reduce_init=None, reduce_res_negate=False, name=None): ...  # noqa: E501
@_missing
def dma_compute(dst, srcs, reduce_op, scales=None, unique_indices=True, oob_mode=oob_mode.error, name=None): ...  # noqa: E501
@_missing
def quantize_mx(dst, src, dst_scale, name=None): ...
@_missing
def nc_find_index8(dst, data, vals, name=None): ...
@_missing
def nc_match_replace8(dst, data, vals, imm, dst_idx=None, name=None): ...
@_missing
def nonzero_with_count(dst, src, index_offset=0, padding_val=-1, name=None): ...
@_missing
def topk(val_dst, idx_dst, src, n, name=None): ...
# fmt: on

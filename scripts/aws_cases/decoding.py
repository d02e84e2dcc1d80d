"""Cases of nki-library's attention of single tokens, masks, gradients of experts and MX norm."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from .case import (
    BFLOAT16,
    BFLOAT16_ERROR,
    Case,
    Launch,
    builder,
    common_types,
    language,
    normal,
    rms_normalised,
    to_torch,
    wide,
)
from .layers import Experts
from .microscaling import dequantised

_CORE = "nkilib.core"
_ATTENTION = f"{_CORE}.attention"


@builder
def _decoded(module: ModuleType, cores: int) -> Launch:
    """Returns a case of attention_tkg, in a kernel that loads the queries.

    There are two sequences with 4 heads and 512 cached keys.
    """
    nki, nl, nisa = language()
    allocator = importlib.import_module(f"{_CORE}.utils.allocator")
    settings = importlib.import_module(f"{_ATTENTION}.attention_tkg_utils").AttnTKGConfig(
        bs=2, q_head=4, s_active=1, curr_sprior=512, full_sprior=512, d_head=128, qk_in_sb=True
    )

    @nki.jit
    def kernel(q: Any, k: Any, v: Any, k_prior: Any, v_prior: Any, mask: Any) -> Any:
        out = nl.ndarray((2, 4, 128, 1), dtype=q.dtype, buffer=nl.shared_hbm)
        tiles = []
        for t in (q, k):
            tile = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=t)
            tiles.append(tile)
        manager = allocator.create_auto_alloc_manager()
        manager.open_scope()
        module.attention_tkg(*tiles, v, k_prior, v_prior, mask, out, settings, manager)
        manager.close_scope()
        return out

    q = (normal(128, 8) * np.float32(128**-0.5)).astype(BFLOAT16)
    k, v = normal(128, 2, seed=1, dtype=BFLOAT16), normal(2, 1, 1, 128, seed=2, dtype=BFLOAT16)
    k_prior = normal(2, 1, 128, 512, seed=3, dtype=BFLOAT16)
    v_prior = normal(2, 1, 512, 128, seed=4, dtype=BFLOAT16)
    mask = np.ones((512, 2, 4, 1), np.uint8)
    arguments = (q, k, v, k_prior, v_prior, mask)
    reference = importlib.import_module(f"{_ATTENTION}.attention_tkg_torch")
    out = to_torch(np.zeros((2, 4, 128, 1), np.float32))
    given = [to_torch(t) for t in arguments]
    reference.attention_tkg_torch_ref[cores](*given, out, settings, None)
    return Launch(kernel, arguments, (out.double().numpy(),))


@builder
def _attention_block(module: ModuleType, cores: int) -> Launch:
    """Returns a case of a whole attention block of two sequences.

    The block contains norm, projections, rotary embedding, attention and output projection.
    """
    types = common_types()
    batch, heads, keys, width = 2, 4, 512, 512
    x, gamma = normal(batch, 1, width, dtype=BFLOAT16), normal(1, width, seed=1, dtype=BFLOAT16)
    inward = (normal(width, 128 * (heads + 2), seed=2) * width**-0.5).astype(BFLOAT16)
    outward = (normal(128 * heads, width, seed=3) * width**-0.5).astype(BFLOAT16)
    angles = np.random.default_rng(4).uniform(0, 6, (64, batch, 1))
    cos, sin = (f(angles).astype(np.float32).astype(BFLOAT16) for f in (np.cos, np.sin))
    k_cache = normal(batch, 128, keys, seed=5, dtype=BFLOAT16)
    v_cache = normal(batch, keys, 128, seed=6, dtype=BFLOAT16)

    lines = rms_normalised(x[:, 0], gamma)
    parts = (lines @ wide(inward)).reshape(batch, heads + 2, 128)
    c, s = (wide(t)[:, :, 0].T[:, None] for t in (cos, sin))
    low, high = parts[:, :-1, :64], parts[:, :-1, 64:]
    turned = np.concatenate([low * c - high * s, high * c + low * s], axis=-1)
    all_keys, all_values = wide(k_cache), wide(v_cache)
    all_keys[:, :, -1], all_values[:, -1] = turned[:, -1], parts[:, -1]
    scores = np.einsum("bhd,bdk->bhk", turned[:, :-1], all_keys) * 128**-0.5
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = np.einsum("bhk,bkd->bhd", weights, all_values).reshape(batch, -1)
    given = {
        "X": x,
        "rmsnorm_X_enabled": True,
        "rmsnorm_X_eps": 1e-6,
        "rmsnorm_X_gamma": gamma,
        "W_qkv": inward,
        "cos": cos,
        "sin": sin,
        "rope_contiguous_layout": True,
        "K_cache_transposed": True,
        "K_cache": k_cache,
        "V_cache": v_cache,
        "attention_mask": np.ones((keys, batch, heads, 1), np.uint8),
        "W_out": outward,
    }
    for step in ("pre", "post"):
        given |= {f"rmsnorm_QK_{step}_rope_{name}": None for name in ("W_Q", "W_K")}
        given |= {f"rmsnorm_QK_{step}_rope_enabled": False, f"rmsnorm_QK_{step}_rope_eps": 0.0}
    for side in ("qkv", "out"):
        given |= {f"{name}_dequant_scale_{side}": None for name in ("weight", "input")}
        given |= {f"quantization_type_{side}": types.QuantizationType.NONE}
        given |= {f"bias_{side}": None}
    given |= dict.fromkeys(("X_hidden_dim_actual", "active_blocks_table", "sink"))
    given |= {"kv_cache_update_idx": None}
    given |= dict.fromkeys(("update_cache", "transposed_out", "out_in_sb"), False)
    expected = mixed @ wide(outward), turned[:, -1].T[:, :, None], parts[:, -1][:, None, None]
    return Launch(module.attention_block_tkg, (), expected, given)


def _masked(module: ModuleType) -> Launch:
    nki, *_ = language()
    positions = np.array([[40, 300]], np.float32)
    tokens = np.arange(512).reshape(128, 4).T.reshape(-1)  # ordered by tile, then by partition
    expected = tokens[:, None] < positions
    shape = (512, 2, 4, 1)
    expected = np.broadcast_to(expected[:, :, None, None], shape)
    kernel = nki.jit(module.gen_mask_tkg_hbm)
    return Launch(kernel, (positions, 2, 4, 1, 512), (expected.astype(np.float64),))


def _quantised_norm(module: ModuleType) -> Launch:
    nki, nl, nisa = language()
    tokens, tiles = 8, 2

    @nki.jit
    def kernel(x: Any, gamma: Any) -> Any:
        shape = (128, tiles, tokens)
        normed = nl.ndarray((128, tokens, 4 * tiles), dtype=x.dtype, buffer=nl.sbuf)
        numbers = nl.ndarray(shape, dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        scales = nl.ndarray(shape, dtype=nl.uint8, buffer=nl.sbuf)
        module.rmsnorm_mx_quantize_tkg(x, gamma, normed, numbers, scales)
        outs = []
        for t in (numbers, scales):
            out = nl.ndarray(shape, dtype=t.dtype, buffer=nl.shared_hbm)
            for quadrant in range(4):
                rows = nl.ds(32 * quadrant, 4 if t.dtype == nl.uint8 else 32)
                nisa.dma_copy(dst=out[rows], src=t[rows])
            outs.append(out)
        return tuple(outs)

    x, gamma = normal(tokens, 1, 1024, dtype=BFLOAT16), normal(1, 1024, seed=1, dtype=BFLOAT16)
    values = rms_normalised(x[:, 0], gamma)
    lines = values.reshape(tokens, 4, tiles, 128)  # the second axis has the four numbers of a word

    return Launch(kernel, (x, gamma), (lines.transpose(3, 2, 0, 1),), {}, dequantised)


def _gradients(module: ModuleType) -> Launch:
    """Returns a case of the gradients of a layer of experts, where each token has one expert.

    It is refused, so that it needs no reference, and the numbers of the forward pass are zeros.
    """
    experts = Experts(256, 1)
    places, owners = experts.blocks()
    dy = normal(experts.tokens + 1, experts.width, seed=7, dtype=BFLOAT16)
    dy[-1] = 0
    blocks = len(owners)
    gates = np.zeros((blocks, 2, experts.inner, experts.block), BFLOAT16)
    outs = np.zeros((blocks, experts.block, experts.width), BFLOAT16)
    arguments = (
        experts.x,
        experts.affinities.reshape(-1, 1),
        experts.gate_up,
        experts.down,
        gates,
        outs,
        places,
        owners.reshape(-1, 1),
        dy,
        experts.block,
    )
    return Launch(module.blockwise_mm_bwd, arguments, (), {"is_tensor_update_accumulating": False})


_TKG = (f"{_ATTENTION}.attention_tkg", "attention_tkg")
_MX_NORM = "rmsnorm_mx_quantize_tkg"
_BWD = "nkilib.experimental.moe.bwd.blockwise_mm_backward"
_KEYS = "2 sequences, 4 heads, 512 keys"
CASES = [
    Case("attention_tkg", *_TKG, _KEYS, _decoded(1), BFLOAT16_ERROR),
    Case("attention_tkg two cores", *_TKG, _KEYS, _decoded(2), BFLOAT16_ERROR, cores=2),
    *[
        Case(
            f"attention_block_tkg {cores}",
            "nkilib.experimental.transformer.attention_block_tkg",
            "attention_block_tkg",
            _KEYS,
            _attention_block(cores),
            BFLOAT16_ERROR,
            cores=cores,
            names_modes=True,
        )
        for cores in (1, 2)
    ],
    Case("gen_mask_tkg", f"{_ATTENTION}.gen_mask_tkg", "gen_mask_tkg_hbm", "2 sequences", _masked),
    Case(
        _MX_NORM,
        f"{_CORE}.subkernels.{_MX_NORM}",
        _MX_NORM,
        "8 tokens of 1024 to MXFP8",
        _quantised_norm,
        0.07,
        "trn3",
        2,
    ),
    Case(
        "blockwise_mm_bwd",
        _BWD,
        "blockwise_mm_bwd",
        "256 tokens, 1 of 4 experts",
        _gradients,
        BFLOAT16_ERROR,
        cores=2,
        refused="1028x1 bfloat16, .* no nisa.core_barrier orders",
        because="each core sets half of the gradients of the affinities to zero and then writes "
        "the gradients of its own tokens, which are in both halves, with no barrier in between",
    ),
]

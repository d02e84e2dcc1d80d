"""Cases of nki-library's projections of queries, keys and values, and its feed-forward layers."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from nki_sim.base.releases import PARSED

from .case import (
    BFLOAT16,
    BFLOAT16_ERROR,
    Case,
    Launch,
    builder,
    cases_of,
    common_types,
    language,
    normal,
    on_both,
    rms_normalised,
    wide,
)

_CORE = "nkilib.core"
_MLP = f"{_CORE}.mlp"


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _small(*shape: int, seed: int) -> np.ndarray:
    # Weights are divided by about the root of the width that they add up.
    return (normal(*shape, seed=seed) * shape[-2] ** -0.5).astype(BFLOAT16)


@builder
def _projected(module: ModuleType, tokens: tuple[int, int], norm: bool) -> Launch:
    types = common_types()
    x, weights = normal(*tokens, 512, dtype=BFLOAT16), _small(512, 768, seed=1)
    gamma, lines = normal(1, 512, seed=2, dtype=BFLOAT16), wide(x)
    settings: dict[str, Any] = {}
    if norm:
        lines = rms_normalised(x, gamma)
        settings = {"fused_norm_type": types.NormType.RMS_NORM, "gamma_norm_weights": gamma}
    return Launch(module.qkv, (x, weights), (lines @ wide(weights),), settings)


@builder
def _fed_forward(module: ModuleType, phase: str, tokens: int) -> Launch:
    """Returns a case of mlp_cte or mlp_tkg, in a kernel that makes parameters as mlp.mlp does."""
    nki, nl, _ = language()
    parameters = importlib.import_module(f"{_MLP}.mlp_parameters").MLPParameters
    layer = getattr(module, f"mlp_{phase}")
    allocator, logs = (
        importlib.import_module(f"{_CORE}.utils.{name}") for name in ("allocator", "logging")
    )

    @nki.jit
    def kernel(x: Any, gate: Any, up: Any, down: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        # Without a manager, mlp_tkg makes one by a name that its file does not import.
        manager = [allocator.BufferManager(0, 200 << 10, logs.Logger("mlp"))]
        manager = manager if phase == "tkg" else []
        layer(parameters(x, gate, up, down), out, None, *manager)
        return out

    x = normal(1, tokens, 512, dtype=BFLOAT16)
    gate, up = _small(512, 256, seed=1), _small(512, 256, seed=2)
    down = _small(256, 512, seed=3)
    hidden = _silu(wide(x) @ wide(gate)) * (wide(x) @ wide(up))
    return Launch(kernel, (x, gate, up, down), (hidden @ wide(down),))


class Experts:
    """A layer of experts, in blocks; each of 256 tokens goes to some of ``count`` experts."""

    tokens, width, inner = 256, 512, 512

    def __init__(self, block: int = 128, chosen: int = 2, count: int = 4) -> None:
        self.block, self.count = block, count
        rng = np.random.default_rng(5)
        shape = (self.tokens, self.count)
        self.picks = np.argsort(rng.random(shape), axis=1)[:, :chosen]
        self.affinities = np.zeros((self.tokens + 1, self.count))
        rows = np.arange(self.tokens)[:, None]
        self.affinities[rows, self.picks] = rng.uniform(0.2, 0.8, self.picks.shape)
        self.affinities = self.affinities.astype(np.float32).astype(BFLOAT16)
        self.x = normal(self.tokens + 1, self.width, dtype=BFLOAT16)
        self.x[-1] = 0
        self.gate_up = _small(self.count, 2, self.width, self.inner, seed=1)
        self.gate_up = np.ascontiguousarray(self.gate_up.transpose(0, 2, 1, 3))
        self.down = _small(self.count, self.inner, self.width, seed=2)

    def blocks(self, padding: int = tokens) -> tuple[np.ndarray, np.ndarray]:
        """Returns the token in each place, and the expert of each block."""
        places: list[np.ndarray] = []
        owners: list[int] = []
        for expert in range(self.count):
            found = np.flatnonzero((self.picks == expert).any(axis=1))
            blocks = -(-len(found) // self.block)
            filled = np.full(blocks * self.block, padding)
            filled[: len(found)] = found
            places.append(filled)
            owners += [expert] * blocks
        if len(owners) % 2:  # both cores need a block
            places.append(np.full(self.block, padding))
            owners.append(self.count - 1)
        return np.concatenate(places).astype(np.int32), np.array(owners, np.int32)

    def outputs(self, x: Any = None, weights: Any = None) -> np.ndarray:
        """Returns the outputs (tokens, width) in float64.

        Args:
            x: tokens; None for all tokens of the layer.
            weights: affinities of the tokens; None for those of the layer.
        """
        x = wide(self.x[:-1] if x is None else x)
        weights = wide(self.affinities[:-1] if weights is None else weights)
        total = np.zeros(x.shape)
        for expert in range(self.count):
            gate, up = (x @ wide(self.gate_up[expert, :, i]) for i in range(2))
            hidden = _silu(gate) * up
            total += weights[:, expert, None] * (hidden @ wide(self.down[expert]))
        return total

    def given(self, skips: bool) -> dict[str, Any]:
        """Returns the arguments of a kernel for the whole layer, but for the weights.

        ``skips``: padding has no token instead of a padding token of its own.
        """
        skipping = importlib.import_module(f"{_CORE}.moe.moe_cte.moe_cte_utils").SkipMode
        places, owners = self.blocks(-1 if skips else self.tokens)
        return {
            "hidden_states": self.x[:-1] if skips else self.x,
            "expert_affinities_masked": self.affinities.reshape(-1, 1),
            "block_size": self.block,
            "token_position_to_id": places,
            "block_to_expert": owners.reshape(-1, 1),
            "expert_affinities_scaling_mode": common_types().ExpertAffinityScaleMode.POST_SCALE,
            "skip_dma": skipping(skips, False),
            "is_tensor_update_accumulating": self.picks.shape[1] > 1,
        }


def of_tokens(all_experts: bool) -> dict[str, Any]:
    """Returns the settings of a kernel for few tokens, of all experts or of selected ones."""
    given = {
        "is_all_expert": all_experts,
        "expert_affinities_scaling_mode": common_types().ExpertAffinityScaleMode.POST_SCALE,
    }
    return given | ({"rank_id": np.zeros((1, 1), np.uint32)} if all_experts else {})


@builder
def _prefilled(
    module: ModuleType, name: str, block: int = 128, chosen: int = 2, skips: bool = False
) -> Launch:
    """Returns a case of a kernel for the whole layer."""
    experts = Experts(block, chosen)
    given = experts.given(skips)
    given |= {"gate_up_proj_weight": experts.gate_up, "down_proj_weight": experts.down}
    if name.endswith("hybrid"):
        given["conditions"] = np.array([1] * len(given["block_to_expert"]) + [0], np.int32)
    return Launch(getattr(module, name), (), (experts.outputs(),), given, _tokens_of)


@builder
def _routed(module: ModuleType, all_experts: bool) -> Launch:
    """Returns a case of moe_block_tkg with 16 tokens: norm, router, experts."""
    experts, tokens = Experts(count=8), 16
    x, gamma = experts.x[:tokens, None], normal(1, experts.width, seed=11, dtype=BFLOAT16)
    router = normal(experts.width, experts.count, seed=12, dtype=BFLOAT16)
    lines = rms_normalised(x[:, 0], gamma)
    logits = lines @ wide(router)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    weights[weights < np.sort(weights, axis=1)[:, -2:-1]] = 0
    given = {
        "inp": x,
        "gamma": gamma,
        "router_weights": router,
        "expert_gate_up_weights": experts.gate_up,
        "expert_down_weights": experts.down,
        "top_k": 2,
        "router_act_fn": common_types().RouterActFnType.SOFTMAX,
        **of_tokens(all_experts),
    }
    expected = experts.outputs(lines, weights), logits
    return Launch(module.moe_block_tkg, (), expected, given)


def _dispatched(module: ModuleType) -> Launch:
    """Returns a case of moe_cte, which calls bwmm_shard_on_block."""
    blocks = importlib.import_module(f"{_CORE}.moe.moe_cte.bwmm_shard_on_block")
    launch = _prefilled("bwmm_shard_on_block")(blocks)
    spec = module.MoECTESpec(implementation=module.MoECTEImplementation.shard_on_block)
    named = launch.named | {"spec": spec}
    return replace(launch, kernel=module.moe_cte, named=named)


def _tokens_of(result: Any) -> tuple[np.ndarray, ...]:
    """Returns the result without the padding token, as a sum over cores with their own results."""
    first = wide(result[0] if isinstance(result, (tuple, list)) else result)
    if first.ndim == 3:
        first = first.sum(axis=0 if first.shape[0] == 2 else 1)
    return (first[:256],)


@builder
def _generated(module: ModuleType, all_experts: bool) -> Launch:
    """Returns a case of moe_tkg with the first 16 tokens."""
    nki, *_ = language()
    experts = Experts()
    given = {
        "hidden_input": experts.x[:16],
        "expert_gate_up_weights": experts.gate_up,
        "expert_down_weights": experts.down,
        "expert_affinities": experts.affinities[:16].astype(np.float32),
        "expert_index": experts.picks[:16].astype(np.uint32),
        **of_tokens(all_experts),
    }
    return Launch(nki.jit(module.moe_tkg), (), (experts.outputs()[:16],), given)


OTHERS_ROWS = (
    "each core loads the sums of all tokens of a block while the other core writes half of them, "
    "with no barrier between the two; a core uses only its own half"
)
_SBUF_BARRIER = {
    "refused": "core_barrier: data is sbuf tile",
    "because": "the kernel calls core_barrier on a tile of SBUF, but the data of a barrier must be "
    "in shared HBM",
}
_NAMED = {"names_modes": True, "waives": ("psum-bank-groups",), "tolerance": BFLOAT16_ERROR}
_SHARDED = "blockwise_mm_baseline_shard_intermediate"
_HIDDEN = "blockwise_mm_baseline_shard_hidden"


def _of(module: str, kernel: str, **common: Any) -> Callable[..., Case]:
    return cases_of(f"{_CORE}.{module}", kernel, **{"tolerance": BFLOAT16_ERROR, **common})


_QKV = _of("qkv.qkv", "qkv")
_MLP_CTE = _of("mlp.mlp_cte.mlp_cte", "mlp_cte")
_MLP_TKG = _of("mlp.mlp_tkg.mlp_tkg", "mlp_tkg", **_NAMED)
_BLOCK = _of("moe.moe_cte.bwmm_shard_on_block", "bwmm_shard_on_block", cores=2)
_INNER = _of("moe.moe_cte.bwmm_shard_on_I", _SHARDED, cores=2)
_HYBRID = _of("moe.moe_cte.bwmm_shard_on_I", f"{_SHARDED}_hybrid", cores=2)
_MOE_BLOCK = _of("moe_block.moe_block_tkg", "moe_block_tkg", cores=2, **_NAMED)
_MOE_CTE = _of("moe.moe_cte.moe_cte", "moe_cte", cores=2)
_MOE_TKG = _of("moe.moe_tkg.moe_tkg", "moe_tkg", cores=2, **_NAMED)
_TOKENS = "256 tokens, 2 of 4 experts"
CASES = [
    _QKV("qkv prefill", "256 tokens, 512 by 768", _projected((1, 256), False)),
    _QKV("qkv prefill norm", "with RMS norm", _projected((1, 256), True)),
    _QKV("qkv prefill two cores", "with RMS norm", _projected((1, 256), True), cores=2),
    *on_both(_QKV("qkv tokens", "4 tokens, RMS norm", _projected((4, 1), True), names_modes=True)),
    *on_both(_MLP_CTE("mlp_cte", "256 tokens", _fed_forward("cte", 256))),
    *on_both(_MLP_TKG("mlp_tkg", "4 tokens", _fed_forward("tkg", 4))),
    _BLOCK("bwmm_shard_on_block", _TOKENS, _prefilled("bwmm_shard_on_block")),
    _INNER(
        _SHARDED,
        "256 tokens, 1 of 4 experts",
        _prefilled(_SHARDED, 256, 1, True),
        refused="operand0.dtype is bfloat16",
        because="the kernel scales by a column of bfloat16, but operand0 of tensor_scalar must be "
        "float32",
    ),
    _INNER(
        f"{_SHARDED} of two",
        _TOKENS,
        _prefilled(_SHARDED, 256, 2, True),
        refused="no nisa.core_barrier orders",
        because=OTHERS_ROWS,
    ),
    _HYBRID(
        f"{_SHARDED}_hybrid",
        _TOKENS,
        _prefilled(f"{_SHARDED}_hybrid", 256, 2, True),
        release=PARSED,
        **_SBUF_BARRIER,
    ),
    _MOE_BLOCK(
        "moe_block_tkg selected", "16 tokens, selected experts", _routed(False), **_SBUF_BARRIER
    ),
    _MOE_BLOCK(
        "moe_block_tkg all",
        "16 tokens, all experts",
        _routed(True),
        because=_SBUF_BARRIER["because"],
    ),
    _MOE_CTE("moe_cte", _TOKENS, _dispatched),
    Case(
        _HIDDEN,
        "nkilib.experimental.moe.forward.bwmm_shard_on_H",
        _HIDDEN,
        _TOKENS,
        _prefilled(_HIDDEN),
        BFLOAT16_ERROR,
        cores=2,
    ),
    _MOE_TKG("moe_tkg selected", "16 tokens, selected experts", _generated(False)),
    _MOE_TKG("moe_tkg all", "16 tokens, all experts", _generated(True)),
]

"""Cases of nki-library's layers with weights in MXFP4, on trn3, and of kernels for many devices."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from .case import BFLOAT16, Case, Launch, builder, cases_of, common_types, language, normal, wide
from .layers import OTHERS_ROWS, Experts, of_tokens

_CORE = "nkilib.core"
_MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # of float4_e2m1fn
_NUMBERS = np.concatenate([_MAGNITUDES, -_MAGNITUDES])
# Activations are rounded once or twice to 8 bits, of which 3 follow the leading one.
_MX_ERROR = 0.08


def _weights(*shape: int, axis: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns random words of four numbers, scales of 8 words along ``axis``, and the values."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 1 << 16, shape).astype(np.uint16)
    groups = [n // 8 if i == axis else n for i, n in enumerate(shape)]
    codes = rng.integers(120, 124, groups).astype(np.uint8)
    numbers = _NUMBERS[words[..., None] >> np.arange(0, 16, 4) & 15]
    powers = np.exp2(np.repeat(codes.astype(np.float64), 8, axis=axis) - 127)
    return words, codes, numbers * powers[..., None]


def _projection(module: ModuleType) -> Launch:
    nki, nl, _ = language()
    types = common_types()

    @nki.jit
    def kernel(attention: Any, weight: Any, scales: Any) -> Any:
        return module.output_projection_cte(
            attention,
            weight.view(nl.float4_e2m1fn_x4),
            quantization_type=types.QuantizationType.MX,
            weight_scales=scales,
        )

    attention = normal(1, 4, 128, 256, dtype=BFLOAT16)
    words, codes, values = _weights(128, 512, axis=0, seed=1)
    lines = wide(attention)[0].reshape(128, 4, 256)
    expected = np.einsum("pjs,phj->sh", lines, values)[None]
    return Launch(kernel, (attention, words, codes), (expected,))


class _MxExperts:
    """Weights of four experts in MXFP4 with biases: width 512, inner width ``inner``."""

    count = 4
    limits = {"gate_clamp_upper_limit": 7.0, "up_clamp_upper_limit": 8.0}
    limits |= {"up_clamp_lower_limit": -6.0}

    def __init__(self, inner: int = 512) -> None:
        self.tiles = inner // 512
        self.gate_up = _weights(self.count, 128, 2, 1, inner, axis=1, seed=1)
        self.down = _weights(self.count, 128, self.tiles, 512, axis=1, seed=2)
        shape = self.count, 128, 2, self.tiles, 4
        self.gate_bias = normal(*shape, seed=8, dtype=BFLOAT16)
        self.down_bias = normal(self.count, 512, seed=9, dtype=BFLOAT16)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Returns the outputs (experts, tokens, 512) of x (tokens, 512), in float64."""
        tokens = len(x)
        lines = wide(x).reshape(tokens, 512)  # by number in a word, then by partition
        weights = self.gate_up[2][:, :, :, 0].transpose(0, 2, 4, 1, 3)
        inner = lines @ weights.reshape(self.count, 2, 512, -1)
        bias = wide(self.gate_bias).transpose(0, 2, 3, 4, 1)
        inner += bias.reshape(self.count, 2, 1, -1)
        gate, up = np.minimum(inner[:, 0], 7), np.clip(inner[:, 1], -6, 8)
        down = self.down[2].transpose(0, 2, 4, 1, 3).reshape(self.count, -1, 512)
        return gate / (1 + np.exp(-gate)) * up @ down + wide(self.down_bias)[:, None]


@builder
def _generated(module: ModuleType, all_experts: bool) -> Launch:
    """Returns a case of moe_tkg with 32 tokens, each of which has two of four experts."""
    nki, nl, _ = language()
    view = importlib.import_module(f"{_CORE}.utils.tensor_view").TensorView
    experts, layer, tokens = _MxExperts(), Experts(), 32

    @nki.jit
    def kernel(gate_up: Any, down: Any, **given: Any) -> Any:
        packed = [view(t).reinterpret_cast(nl.float4_e2m1fn_x4) for t in (gate_up, down)]
        return module.moe_tkg(
            expert_gate_up_weights=packed[0], expert_down_weights=packed[1], **given
        )

    x, affinities = layer.x[:tokens], layer.affinities[:tokens]
    given = {
        "hidden_input": x,
        "expert_affinities": affinities if all_experts else affinities.astype(np.float32),
        "expert_index": layer.picks[:tokens].astype(np.int32),
        "expert_gate_up_bias": experts.gate_bias,
        "expert_down_bias": experts.down_bias,
        "expert_gate_up_weights_scale": experts.gate_up[1],
        "expert_down_weights_scale": experts.down[1],
        **experts.limits,
        **of_tokens(all_experts),
    }
    expected = np.einsum("te,eth->th", wide(affinities), experts.outputs(x))
    return Launch(kernel, (experts.gate_up[0], experts.down[0]), (expected,), given)


@builder
def _prefilled(module: ModuleType, name: str, inner: int, block: int, chosen: int = 2) -> Launch:
    """Returns a case of a kernel with 256 tokens, each of which has some of four experts."""
    experts, layer = _MxExperts(inner), Experts(block, chosen)
    given = {
        **layer.given(skips=chosen == 1),
        "gate_up_proj_weight": experts.gate_up[0],  # words that the kernel interprets as MXFP4
        "down_proj_weight": experts.down[0],
        "gate_and_up_proj_bias": experts.gate_bias,
        "down_proj_bias": experts.down_bias,
        "gate_up_proj_scale": experts.gate_up[1],
        "down_proj_scale": experts.down[1],
        **experts.limits,
    }
    outs = experts.outputs(layer.x[:-1])
    expected = np.einsum("te,eth->th", wide(layer.affinities[:-1]), outs)
    return Launch(getattr(module, name), (), (expected,), given, _first_sum)


def _fed_forward(module: ModuleType) -> Launch:
    """Returns a case of mlp_tkg_mx with 8 tokens.

    The case's kernel makes parameters as mlp.mlp does.
    """
    nki, nl, _ = language()
    types = common_types()
    parameters = importlib.import_module(f"{_CORE}.mlp.mlp_parameters").MLPParameters

    @nki.jit
    def kernel(x: Any, gate: Any, up: Any, down: Any, *scales: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        packed = [t.view(nl.float4_e2m1fn_x4) for t in (gate, up, down)]
        held = parameters(
            x,
            *packed,
            quantization_type=types.QuantizationType.MX,
            gate_w_scale=scales[0],
            up_w_scale=scales[1],
            down_w_scale=scales[2],
        )
        module.mlp_tkg_mx(held, out, None)
        return out

    x = normal(8, 1, 1024, dtype=BFLOAT16)
    gate, up = (_weights(128, 2, 512, axis=0, seed=seed) for seed in (1, 2))
    down = _weights(128, 1, 1024, axis=0, seed=3)
    lines = wide(x).reshape(8, 4, 2, 128)  # by number in a word, tile and partition
    inner = [np.einsum("tjkp,pkij->ti", lines, values) for _, _, values in (gate, up)]
    hidden = (inner[0] / (1 + np.exp(-inner[0])) * inner[1]).reshape(8, 4, 128)
    expected = np.einsum("tjp,phj->th", hidden, down[2][:, 0])[:, None]
    arguments = (x, gate[0], up[0], down[0], gate[1], up[1], down[1])
    return Launch(kernel, arguments, (expected,))


def _loaded(module: ModuleType) -> Launch:
    """Returns a case of mxfp_load_performance_wrapper with two transposed blocks of 128x512."""
    x = normal(128, 1024, dtype=BFLOAT16)
    # The axes of a block are pair of numbers, partition, place in the pair.
    expected = wide(x).reshape(128, 2, 128, 4).transpose(2, 1, 0, 3).reshape(128, 256, 4)
    return Launch(module.mxfp_load_performance_wrapper, (x,), (expected,), {}, dequantised)


def dequantised(result: Any) -> tuple[np.ndarray, ...]:
    """Returns the values of words of four float8_e4m3fn numbers, with scales in all quadrants."""
    words, scales = result
    numbers = np.ascontiguousarray(words)[..., None].view(ml_dtypes.float8_e4m3fn)
    codes = np.concatenate([scales[32 * i : 32 * i + 4] for i in range(4)])
    powers = np.exp2(np.repeat(codes.astype(np.float64), 8, axis=0) - 127)
    return (wide(numbers) * powers[..., None],)


def _first_sum(result: Any) -> tuple[np.ndarray, ...]:
    # The first of (2, tokens, width) holds the sum; the last token is padding.
    return (wide(result[0] if np.ndim(result) == 3 else result)[:256],)


@builder
def _gathered(module: ModuleType, name: str, *more: int) -> Launch:
    given = (normal(512, 512, dtype=BFLOAT16), *[normal(512, n) for n in more])
    return Launch(getattr(module, name), (*given, 4, 1), ())


def _of(module: str, kernel: str, tolerance: float = _MX_ERROR, **common: Any) -> Any:
    return cases_of(module, kernel, tolerance=tolerance, chip="trn3", **common)


def _collective(module: str, kernel: str, *more: int) -> Case:
    return Case(
        kernel,
        f"nkilib.experimental.collectives.{module}",
        kernel,
        "4 ranks",
        _gathered(kernel, *more),
        refused="nki.collectives.* is not simulated",
        because="collectives are not simulated, because a launch runs on one device",
    )


_OUT = f"{_CORE}.output_projection.output_projection_cte.output_projection_cte"
_PROJECTED = _of(_OUT, "output_projection_cte")
_MOE = _of(f"{_CORE}.moe.moe_tkg.moe_tkg", "moe_tkg", cores=2, names_modes=True)
_BLOCK, _INNER = "bwmm_shard_on_block_mx", "blockwise_mm_shard_intermediate_mx"
_LOAD = _of(
    "nkilib.experimental.mxfp_subkernels.mxfp_load_utils", "mxfp_load_performance_wrapper", 0.07
)
CASES = [
    _PROJECTED("output_projection_cte mx", "256x512 by 512x512 in MXFP4", _projection),
    _MOE("moe_tkg mx selected", "32 tokens, selected experts in MXFP4", _generated(False)),
    _MOE("moe_tkg mx all", "32 tokens, all experts in MXFP4", _generated(True)),
    _of(f"{_CORE}.moe.moe_cte.{_BLOCK}", _BLOCK, cores=2, names_modes=True)(
        _BLOCK, "256 tokens, 2 of 4 experts in MXFP4", _prefilled(_BLOCK, 512, 128)
    ),
    *[
        _of(f"{_CORE}.moe.moe_cte.bwmm_shard_on_I_mx", _INNER, cores=2)(
            f"{_INNER} of {chosen}",
            f"256 tokens, {chosen} of 4 experts in MXFP4",
            _prefilled(_INNER, 2048, 256, chosen),
            refused="no nisa.core_barrier orders" if chosen > 1 else "",
            because=OTHERS_ROWS,
        )
        for chosen in (1, 2)
    ],
    _of(f"{_CORE}.mlp.mlp_tkg.mlp_tkg_mx", "mlp_tkg_mx", cores=2, names_modes=True)(
        "mlp_tkg_mx", "8 tokens, weights in MXFP4", _fed_forward
    ),
    _LOAD(
        "mxfp_load",
        "128x1024 to MXFP8",
        _loaded,
        refused="no nl.range",
        because="the kernel calls nl.range, which no document has; loops use Python's range",
    ),
    _collective("fg_allgather", "fine_grained_allgather"),
    _collective("fgcc", "allgather_compute_matmul", 512),
]

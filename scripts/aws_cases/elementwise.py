"""Cases of nki-library's norms, rotary embeddings, sums and searches."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from .case import Case, Launch, builder, cases_of, normal, on_both, wide


def _cumsum(module: ModuleType) -> Launch:
    x = normal(4, 100, 3000)
    return Launch(module.cumsum, (x,), (np.cumsum(wide(x), axis=-1),))


@builder
def _rope(
    module: ModuleType, contiguous: bool, in_sbuf: bool = False, shards: bool = False
) -> Launch:
    x = normal(128, 2, 4, 32)
    cos, sin = normal(64, 2, 32, seed=1), normal(64, 2, 32, seed=2)
    lines = wide(x) if contiguous else np.concatenate([wide(x)[0::2], wide(x)[1::2]])
    real, imaginary = lines[:64], lines[64:]
    c, s = wide(cos)[:, :, None], wide(sin)[:, :, None]
    turned = np.concatenate([real * c - imaginary * s, real * s + imaginary * c])
    if not contiguous:
        both = np.empty_like(turned)
        both[0::2], both[1::2] = turned[:64], turned[64:]
        turned = both
    settings = {
        "lnc_shard": shards,
        "contiguous_layout": contiguous,
        "relayout_in_sbuf": in_sbuf,
    }
    return Launch(module.RoPE, (x, cos, sin), (turned,), settings)


@builder
def _rope_hf(module: ModuleType, backward: bool) -> Launch:
    q, k = normal(2, 4, 512, 64), normal(2, 2, 512, 64, seed=1)
    cos, sin = normal(2, 512, 64, seed=2), normal(2, 512, 64, seed=3)

    def turn(x: np.ndarray) -> np.ndarray:
        c, s = wide(cos)[:, None], wide(sin)[:, None]
        x = wide(x)
        if backward:
            y = x * s
            return x * c + np.concatenate([y[..., 32:], -y[..., :32]], axis=-1)
        return x * c + np.concatenate([-x[..., 32:], x[..., :32]], axis=-1) * s

    outs = np.zeros_like(q), np.zeros_like(k)
    settings = {"backward": backward}
    return Launch(module.rope_hf, (q, k, *outs, cos, sin), (turn(q), turn(k)), settings)


def _cascaded_max(module: ModuleType) -> Launch:
    x = normal(2, 4, 20000)
    return Launch(module.cascaded_max, (x,), (x.max(-1, keepdims=True), x.argmax(-1)[..., None]))


_ROPE = cases_of("nkilib.core.embeddings.rope", "RoPE")
_ROPE_HF = cases_of("nkilib.core.embeddings.rope_hf", "rope_hf")
_MAX = cases_of("nkilib.core.max.cascaded_max", "cascaded_max")
CASES = [
    Case("cumsum", "nkilib.core.cumsum.cumsum", "cumsum", "4x100x3000", _cumsum),
    _ROPE("rope", "contiguous", _rope(True)),
    _ROPE("rope interleaved", "interleaved, by DMA", _rope(False)),
    _ROPE("rope relayout", "interleaved, by products", _rope(False, True)),
    _ROPE("rope two cores", "contiguous", _rope(True, shards=True), cores=2),
    _ROPE_HF("rope_hf", "forward", _rope_hf(False)),
    _ROPE_HF("rope_hf backward", "backward", _rope_hf(True)),
    _ROPE_HF("rope_hf two cores", "forward", _rope_hf(False), cores=2),
    *on_both(_MAX("cascaded_max", "2x4x20000", _cascaded_max)),
]

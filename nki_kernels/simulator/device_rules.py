"""Rules that records of real chips teach: what a chip computes wrong, or its compiler refuses.

AWS's simulator shows none of them. Each has a verdict a chip, a field of `nki_kernels.hardware`
named in `Rule.field`: WRONG breaks are errors, CONTESTED ones warn and are errors in strict mode,
DOUBTFUL ones warn, FINE ones are no breaks. A chip that no record speaks of has CONTESTED, unless a
document clears it.

Kernels of this package that break a rule today are listed in known_violations.json, by rule: they
warn where they run. `allow` waives rules inside a block, for probes and for tests of rules.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .tensor import NkiTensor, coalesce

KNOWN_VIOLATIONS = Path(__file__).parents[1] / "known_violations.json"
KERNELS = ".kernels."  # modules of this package whose kernels may be listed


@dataclass(frozen=True)
class Rule:
    """What a kernel must not do.

    Attributes:
        field: of `NeuronCore`: the verdict on breaks of the rule.
        says: the rule in words.
        source: who saw what, on which chip.
    """

    field: str
    says: str
    source: str


RULES = {
    "psum-bank-groups": Rule(
        "psum_bank_groups",
        "a PSUM bank holds one accumulation group of several terms, and no other group beside it: "
        "give each group a PSUM tile of its own",
        "kiln (trn1, NKI 0.6): the first group of a bank lost terms that the simulator has; an LM "
        "head on trn2 lost one in four; neuronx-cc's zero region is a whole bank",
    ),
    "stationary-dimensions": Rule(
        "many_dimensional_stationary",
        "the Tensor engine reads a stationary operand along one free dimension: store it as one "
        "strided run",
        "vllm-neuron's MoE kernel: wrong products on trn2, right ones in AWS's simulator",
    ),
    "tensors-in-sequences": Rule(
        "tensors_in_sequences",
        "a kernel is launched with tensors as arguments of their own: wrap_nki takes those in a "
        "tuple or list for constants",
        "torch_neuronx and vllm_neuron: their operators take top-level tensors only; read in code",
    ),
    "small-array-tile": Rule(
        "small_array_tiles",
        "neuronx-cc has no array tile of 32x32 on NeuronCore-v2: use more than 32 partitions or "
        "more than 32 columns of the stationary operand",
        "NCC_IBIR058, by kiln on trn1; that K has to be small, too, is not recorded",
    ),
    "narrow-stationary": Rule(
        "narrow_stationaries",
        "17 to 32 columns of the stationary operand may be refused as an array tile of 32x32",
        "NCC_IBIR058, by kiln on trn1, which names 32 columns and not the number of partitions",
    ),
    "column-tiles": Rule(
        "column_tiles",
        "the text on nc_matmul's tile_size forbids column tiles that its prose describes: use all "
        "128 columns",
        "nki/api/nki/isa: nc_matmul, tile_size",
    ),
    "activation-column-scale": Rule(
        "activation_column_scale",
        "nisa.activation may compute wrong products where its scale is a column: use "
        "nisa.tensor_scalar",
        "BigVGAN's kernel for trn2 (TorchNeuron Beta 3): wrong with a column, right with "
        "tensor_scalar; what was wrong may have been nl.sin. The document on nisa.activation has "
        "columns, and AWS's mamba kernel gives one",
    ),
    "gpsimd-float32": Rule(
        "gpsimd_float32",
        "nisa.tensor_tensor on GpSimdE takes no float32: use VectorE",
        "NCC_IXCG965, by kiln on trn1; no record of trn2 and trn3, where it is documented",
    ),
    "dynamic-rows": Rule(
        "dynamic_rows",
        "a dma_copy whose address a register holds moves one run of HBM: copy row by row",
        "kiln notes on trn1 that an indirect DMA reads within one row, of gathers by a tile of "
        "indices; nki-aps.rst and nki-library move several rows from the address of a register",
    ),
    "dma-written-ahead": Rule(
        "dma_written_ahead",
        "SBUF that DMA writes and that is live at once stays within 64 KiB a partition, counted "
        "when loads run as far ahead as they can: load less at a time, or copy what has to stay",
        "spectral-dns (v2): beyond that the compiler serialises, four times slower past 96 KiB",
    ),
    "instruction-count": Rule(
        "many_instructions",
        "a launch of more than 300,000 instructions (a device loop's body counts once) compiles "
        "for many minutes: loop over blocks on the device",
        "kiln: 0.7 million take 350 to 560 s and 14 to 24 GB; 240,000 work",
    ),
    "nested-device-loops": Rule(
        "nested_device_loops",
        "a loop on the device holds no other one: unroll the inner one with range()",
        "kiln, trn1, NKI 0.6: refused; aws-neuron-sdk issue 1346: NCC_ICFG018 refused it up to NKI "
        "0.5, and AWS says of NKI 0.6 that the issue's kernel compiles",
    ),
    "ap-of-views": Rule(
        "ap_of_views",
        "where .ap is called on a view, AWS's documents disagree on what it counts from: call .ap "
        "on the tensor as it was allocated or passed, with an offset from its first element and an "
        "indirect_dim of its own shape",
        "NkiTensor.ap's docstring adds the view's offset, nki-aps.rst ignores its shape and offset",
    ),
    "instruction-limit": Rule(
        "too_many_instructions",
        "a launch has at most 5 million instructions (a device loop's body counts once)",
        "NCC_EBVF030, neuronx-cc",
    ),
}
MANY_INSTRUCTIONS, MOST_INSTRUCTIONS = 300_000, 5_000_000

_allowed: ContextVar[frozenset[str]] = ContextVar("nki_allowed_rules", default=frozenset())


@dataclass(frozen=True)
class Break:
    """One break of a rule: which, by what."""

    rule: str
    operand: str
    value: str


@contextmanager
def allow(*names: str) -> Iterator[None]:
    """Waive rules inside a ``with`` block, for probes on a chip and for tests of rules.

    Timelines recorded inside tell it in their ``waived_rules``.

    Args:
        names: of rules, the keys of ``device_rules.RULES``.

    Raises:
        ValueError: one is no rule.
    """
    for name in names:
        if name not in RULES:
            raise ValueError(f"argument 'names' has {name!r}, allowed are {', '.join(RULES)}")
    token = _allowed.set(_allowed.get() | set(names))
    try:
        yield
    finally:
        _allowed.reset(token)


def is_allowed(rule: str) -> bool:
    """Whether the rule is waived in this context."""
    return rule in _allowed.get()


@functools.cache
def known_violations() -> dict[str, frozenset[str]]:
    """For each kernel of this package that breaks rules today, by its name, their names."""
    content = json.loads(KNOWN_VIOLATIONS.read_text("utf-8"))
    return {kernel: frozenset(rules) for kernel, rules in content.items()}


def is_known(kernel: Any, rule: str) -> bool:
    """Whether a function is a kernel of this package that is listed as breaking the rule."""
    module, name = getattr(kernel, "__module__", ""), getattr(kernel, "__name__", "")
    if KERNELS not in module or not module.startswith(__name__.partition(".")[0]):
        return False
    return rule in known_violations().get(name, ())


def breaks_of_matmul(
    stationary: NkiTensor, k: int, m: int, tile_size: tuple[int, ...], dimensions: int
) -> tuple[Break, ...]:
    """Breaks that a product of the Tensor engine shows by itself.

    Args:
        stationary: the operand.
        k, m: its partitions and columns.
        tile_size: rows and columns of the array tile, or nothing.
        dimensions: free dimensions that the chip allows it.
    """
    found = []
    free = len(coalesce(stationary.shape[1:], stationary.strides[1:]))
    if free > dimensions:
        shape = f"shape {stationary.shape}, {free} free dimensions after merging"
        found.append(Break("stationary-dimensions", "stationary", shape))
    if m <= 32 and k <= 32:
        found.append(Break("small-array-tile", "stationary", f"{k} partitions, {m} columns"))
    elif 16 < m <= 32:
        found.append(Break("narrow-stationary", "stationary", f"{k} partitions, {m} columns"))
    if tile_size and tile_size[1] < 128:
        found.append(Break("column-tiles", "tile_size", f"{tile_size}"))
    return tuple(found)


def breaks_of_activation(scale: Any) -> tuple[Break, ...]:
    """Breaks that an activation with this scale shows by itself."""
    if not isinstance(scale, NkiTensor):
        return ()
    return (Break("activation-column-scale", "scale", f"shape {scale.shape}"),)


def breaks_of_gpsimd(tiles: tuple[NkiTensor, ...]) -> tuple[Break, ...]:
    """Breaks that a tensor_tensor of these operands on GpSimdE shows by itself."""
    if all(t.dtype != "float32" for t in tiles):
        return ()
    return (Break("gpsimd-float32", "engine", "gpsimd with float32 operands"),)


def breaks_of_copy(dst: NkiTensor, src: NkiTensor) -> tuple[Break, ...]:
    """Breaks that a dma_copy shows by itself: several runs of HBM at the address of a register."""
    found = []
    for operand, t in (("dst", dst), ("src", src)):
        if t._free or t._dynamic is None or t._dynamic.kind != "scalar":
            continue
        runs = [stride for _, stride in coalesce(t.shape, t.strides)]
        if len(runs) > 1:
            found.append(Break("dynamic-rows", operand, f"shape {t.shape}, {len(runs)} strides"))
    return tuple(found)


def note_group(accumulate: bool | None, bank_bytes: int) -> Callable[[Any, list[NkiTensor]], None]:
    """What a session does after a matmul: keep account of the groups in its PSUM bank.

    A group is named by the place it accumulates in. That it was read does not end it: the
    scheduler may move the next one before that. Whether leaving `accumulate` out helps is not
    known, so it counts as the compiler would decide.
    """

    def note(session: Any, writes: list[NkiTensor]) -> None:
        target = writes[0]
        storage = target.storage
        place = target.offset, target.shape, target.strides
        first = target.offset % target._free * target._layout.np_type.itemsize // bank_bytes
        groups = storage.groups.get(first)
        if groups is None:
            groups = storage.groups[first] = {}
        adds = place in groups if accumulate is None else accumulate
        terms = groups[place] = groups.get(place, 0) + 1 if adds else 1
        if len(groups) > 1 and (terms > 1 or max(groups.values()) > 1):
            value = f"{storage.describe()}: {len(groups)} groups, of up to "
            broken = Break("psum-bank-groups", "dst", f"{value}{max(groups.values())} terms")
            session.broke("nisa.nc_matmul", broken)

    return note

"""Rules from records of real chips: what a chip computes wrongly, or its compiler refuses.

AWS's simulator checks none of these rules. Each rule has a verdict for each chip, a field of
`nki_sim.hardware` that `Rule.field` names. A break is an error if the verdict is WRONG, a
warning and in strict mode an error if it is CONTESTED, a warning if it is DOUBTFUL, and allowed if
it is FINE. A chip without a record has the verdict CONTESTED, unless a document allows the use.

`allow` waives rules inside a block, for probes and for tests of rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from nki_sim.base import dtypes
from nki_sim.errors import Break
from nki_sim.hardware import REGISTERS
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import LaunchState
from nki_sim.views.strides import coalesce
from nki_sim.views.tensor import NkiTensor


@dataclass(frozen=True)
class Rule:
    """A rule about what a kernel must not do.

    Attributes:
        field: the field of `NeuronCore` with the verdict on breaks of the rule.
        says: the rule in words, and what to do instead.
        source: who saw what, on which chip.
    """

    field: str
    says: str
    source: str


RULES = {
    "psum-bank-groups": Rule(
        "psum_bank_groups",
        "a PSUM bank can hold only one accumulation group, if that group has several terms: put "
        "each group into a PSUM tile of its own",
        "kiln (trn1, NKI 0.6): the first group of a bank lost terms that the simulator has; an LM "
        "head on trn2 lost one in four; neuronx-cc's zero region is a whole bank",
    ),
    "stationary-dimensions": Rule(
        "many_dimensional_stationary",
        "the Tensor engine reads a stationary operand along one free dimension: store the operand "
        "as one strided run",
        "vllm-neuron's MoE kernel: wrong products on trn2, right ones in AWS's simulator",
    ),
    "transpose-dtype": Rule(
        "transposes_into_float32",
        "a transpose by the Tensor engine needs a dst of the dtype of its data: make the PSUM tile "
        "of that dtype",
        "the document of nisa.nc_transpose; against it, the comment of a published kernel: on trn1 "
        "all results of the array are float32, on trn2 they have the dtype of the input",
    ),
    "accumulate-onto-others": Rule(
        "accumulates_onto_others",
        "another instruction than a matmul initialised this PSUM: pass accumulate=False to the "
        "first product",
        "the document of nisa.nc_matmul: undefined on v2 and v3, defined on v4; against it, "
        "published kernels that begin with nl.zeros in PSUM",
    ),
    "tensors-in-sequences": Rule(
        "tensors_in_sequences",
        "wrap_nki takes tensors in a tuple or list for constants: pass each tensor as an argument "
        "of its own",
        "torch_neuronx and vllm_neuron: by their code, their operators accept top-level tensors "
        "only",
    ),
    "small-array-tile": Rule(
        "small_array_tiles",
        "neuronx-cc has no array tile of 32x32 on NeuronCore-v2: use more than 32 partitions or "
        "more than 32 columns of the stationary operand",
        "NCC_IBIR058, by kiln on trn1; the record does not say whether K must be small, too",
    ),
    "narrow-stationary": Rule(
        "narrow_stationaries",
        "the compiler may refuse 17 to 32 columns of the stationary operand as an array tile of "
        "32x32: use other numbers of columns",
        "NCC_IBIR058, by kiln on trn1, which names 32 columns and not the number of partitions",
    ),
    "column-tiles": Rule(
        "column_tiles",
        "the document on nc_matmul forbids column tiles under tile_size, although it describes "
        "them elsewhere: use all 128 columns",
        "nki/api/nki/isa: nc_matmul, tile_size",
    ),
    "activation-column-scale": Rule(
        "activation_column_scale",
        "nisa.activation may compute wrong products if its scale is a column: use "
        "nisa.tensor_scalar",
        "BigVGAN's kernel for trn2 (TorchNeuron Beta 3): wrong with a column, right with "
        "tensor_scalar; the cause may have been nl.sin. The document on nisa.activation allows "
        "columns, and AWS's mamba kernel passes one",
    ),
    "gpsimd-float32": Rule(
        "gpsimd_float32",
        "nisa.tensor_tensor on GpSimdE may not support floating point: use VectorE",
        "NCC_IXCG965, by kiln on trn1, for operands of float32 and 8-bit floats; no record of trn2 "
        "and trn3, where documents allow it",
    ),
    "transposed-lines": Rule(
        "transposed_lines",
        "the rows that nisa.dma_transpose writes must begin at multiples of 32 bytes in a "
        "partition of SBUF: pad the rows of the tile",
        "the verifier of neuronx-cc for trn2, by vllm-neuron (functional/glue); AWS's nki-library "
        "aligns such tiles to 32 bytes (qkv_cte.py, attention_cte.py, bwmm_bwd_dropless.py)",
    ),
    "transposed-pitch": Rule(
        "transposed_pitch",
        "a partition of the tile that nisa.dma_transpose writes may need a multiple of 32 bytes: "
        "pad the tile",
        "one reading of what vllm-neuron reports of the verifier; AWS's nki-library transposes to "
        "tiles with any number of bytes in a partition (norm_tkg_utils.py)",
    ),
    "live-registers": Rule(
        "live_registers",
        f"the sequencer of an engine has {REGISTERS} registers of 32 bits: load each number into a "
        f"register shortly before its use, or keep the numbers in a tile",
        "nki/api/nki/isa: register_alloc; no document says that the compiler spills registers",
    ),
    "dynamic-rows": Rule(
        "dynamic_rows",
        "a dma_copy whose address a register holds moves only one run of HBM: copy row by row",
        "kiln notes on trn1, for gathers by a tile of indices, that an indirect DMA reads within "
        "one row; nki-aps.rst and nki-library move several rows from the address of a register",
    ),
    "dma-written-ahead": Rule(
        "dma_written_ahead",
        "it should be at most 64 KiB a partition, where loads run as far ahead as they can: load "
        "less at a time, or copy what must stay",
        "spectral-dns (v2): the compiler serialises beyond that, four times slower past 96 KiB",
    ),
    "instruction-count": Rule(
        "many_instructions",
        "a launch of more than 300,000 instructions (the body of a device loop counts once) takes "
        "many minutes to compile: loop over blocks on the device",
        "kiln: 0.7 million take 350 to 560 s and 14 to 24 GB; 240,000 work",
    ),
    "nested-device-loops": Rule(
        "nested_device_loops",
        "a loop on the device cannot contain another one: unroll the inner loop by range()",
        "kiln, trn1, NKI 0.6: refused; aws-neuron-sdk issue 1346: NCC_ICFG018 refused it up to NKI "
        "0.5, and AWS says of NKI 0.6 that the issue's kernel compiles",
    ),
    "ap-of-views": Rule(
        "ap_of_views",
        "AWS's documents disagree on where .ap of a view counts from: call .ap on the tensor as it "
        "was allocated or passed, with an offset from its first element and an indirect_dim of its "
        "own shape",
        "NkiTensor.ap's docstring adds the view's offset; nki-aps.rst ignores its shape and offset",
    ),
    "instruction-limit": Rule(
        "too_many_instructions",
        "a launch can have at most 5 million instructions (the body of a device loop counts once): "
        "loop over blocks on the device",
        "NCC_EBVF030, neuronx-cc",
    ),
}
LINE_BYTES = 32  # of the rows that a DMA transposes
MANY_INSTRUCTIONS, MOST_INSTRUCTIONS = 300_000, 5_000_000

_allowed: ContextVar[frozenset[str]] = ContextVar("nki_allowed_rules", default=frozenset())


@contextmanager
def allow(*names: str) -> Iterator[None]:
    """Waives rules inside a ``with`` block, for probes on a chip and for tests of rules.

    Timelines that are recorded inside list the waived rules that were broken as ``waived_rules``.

    Args:
        names: names of rules, which are the keys of ``device_rules.RULES``.

    Raises:
        ValueError: a name is not the name of a rule.
    """
    for name in names:
        if name not in RULES:
            raise ValueError(f"argument 'names' contains {name!r}, allowed are {', '.join(RULES)}")
    token = _allowed.set(_allowed.get() | set(names))
    try:
        yield
    finally:
        _allowed.reset(token)


def is_allowed(rule: str) -> bool:
    """Returns whether the rule is waived in this context."""
    return rule in _allowed.get()


def breaks_of_matmul(
    stationary: NkiTensor, k: int, m: int, tile_size: tuple[int, ...], dimensions: int
) -> tuple[Break, ...]:
    """Returns the rules that a product of the Tensor engine breaks.

    Args:
        stationary: the stationary operand.
        k, m: its number of partitions and of columns.
        tile_size: rows and columns of the array tile, or ().
        dimensions: the number of free dimensions that the chip allows.
    """
    found = []
    free = len(coalesce(stationary.shape[1:], stationary.strides[1:]))
    if free > dimensions:
        shape = f"a tile of shape {stationary.shape} with {free} free dimensions after merging"
        found.append(Break("stationary-dimensions", "stationary", shape))
    size = f"a tile of {k} partitions and {m} columns"
    if m <= 32 and k <= 32:
        found.append(Break("small-array-tile", "stationary", size))
    elif 16 < m <= 32:
        found.append(Break("narrow-stationary", "stationary", size))
    if tile_size and tile_size[1] < 128:
        found.append(Break("column-tiles", "tile_size", f"{tile_size}"))
    return tuple(found)


def breaks_of_activation(scale: object) -> tuple[Break, ...]:
    """Returns the rules that an activation with this scale breaks."""
    if not isinstance(scale, NkiTensor):
        return ()
    return (Break("activation-column-scale", "scale", f"a tile of shape {scale.shape}"),)


def breaks_of_gpsimd(tiles: tuple[NkiTensor, ...]) -> tuple[Break, ...]:
    """Returns the rules that a tensor_tensor of these operands on GpSimdE breaks."""
    found = sorted({t.dtype for t in tiles} & dtypes.FLOATS)
    if not found:
        return ()
    value = f"gpsimd with operands of {' and '.join(found)}"
    return (Break("gpsimd-float32", "engine", value),)


def breaks_of_transpose(dst: NkiTensor) -> tuple[Any, ...]:
    """Returns the rules that a dma_transpose breaks, or a check of where it writes.

    Rows without gaps count as one row, as in the documented sizes of transposes by hardware DGE.
    """
    size = dtypes.itemsize(dst.dtype)
    for _, stride in coalesce(dst.shape[1:], dst.strides[1:])[:-1]:
        if stride * size % LINE_BYTES:
            value = f"a tile of shape {dst.shape} with rows that are {stride * size} bytes apart"
            return (Break("transposed-lines", "dst", value),)
    pitch = dst._free * size
    if dst.shape[0] > 1 and pitch % LINE_BYTES:
        value = f"a part of {dst.storage.describe()}, with {pitch} bytes in a partition"
        return Break("transposed-pitch", "dst", value), _starts_off_a_line
    return (_starts_off_a_line,)


def _starts_off_a_line(
    issue: Issue, writes: list[NkiTensor], reads: list[NkiTensor]
) -> Break | None:
    dst = writes[0]
    byte = dst.offset % dst._free * dtypes.itemsize(dst.dtype) + (dst.storage.address or 0)
    if byte % LINE_BYTES == 0 or dst._dynamic is not None:
        return None
    value = f"a view that begins at byte {byte} of {dst.storage.describe()}"
    return Break("transposed-lines", "dst", value)


def breaks_of_copy(dst: NkiTensor, src: NkiTensor) -> tuple[Break, ...]:
    """Returns the rules that a dma_copy breaks, which are about addresses in registers."""
    found = []
    for operand, t in (("dst", dst), ("src", src)):
        if t._free or t._dynamic is None or t._dynamic.kind != "scalar":
            continue
        runs = [stride for _, stride in coalesce(t.shape, t.strides)]
        if len(runs) > 1:
            value = f"a tensor of shape {t.shape} with {len(runs)} strides"
            found.append(Break("dynamic-rows", operand, value))
    return tuple(found)


def note_group(
    accumulate: bool | None, bank_bytes: int
) -> Callable[[Any, Sequence[NkiTensor]], None]:
    """Returns what a session does after a matmul: it counts the groups in the PSUM bank.

    A group is identified by the place where it accumulates. A read does not end a group, because
    the scheduler may move the next group before the read. It is unknown whether omitting
    `accumulate` helps, so the matmul then counts as the compiler would decide.
    """

    def note(session: LaunchState, writes: Sequence[NkiTensor]) -> None:
        target = writes[0]
        storage, layout = target.storage, target._layout
        place = target.offset, layout.shape, layout.strides
        first = target.offset % layout.free * layout.np_type.itemsize // bank_bytes
        groups = storage.groups.get(first)
        if groups is None:
            storage.groups[first] = {place: 1}
            return
        adds = accumulate or (accumulate is None and place in groups)
        terms = groups[place] = groups.get(place, 0) + 1 if adds else 1
        if len(groups) > 1 and (terms > 1 or max(groups.values()) > 1):
            most = max(groups.values())
            value = (
                f"{storage.describe()} with {len(groups)} groups of up to {most} terms in a bank"
            )
            broken = Break("psum-bank-groups", "dst", value)
            session.broke("nisa.nc_matmul", broken)

    return note

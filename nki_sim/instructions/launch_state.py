"""What instructions, rules and the timeline ask of a launch; a `launch.session.Session` answers.

The session lies above this room. `active` and `current` are those of `base.running`, with the type
that instructions need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from nki_sim import hardware
from nki_sim.base import dtypes, running
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import MemoryRegion
from nki_sim.errors import KernelWarning, NkiValidationError, SourceLine
from nki_sim.hardware import NeuronCore
from nki_sim.views.register import Life
from nki_sim.views.shadow import Marks
from nki_sim.views.storage import Storage
from nki_sim.views.tensor import NkiTensor

from .instruction_notes import Note
from .issue import Issue
from .issue_cache import shared_cache

Operands = Sequence[NkiTensor]
Traced = tuple[Issue, list[Any], str]  # waits (`rules.accesses.Wait`), name
Logged = tuple[Issue, Operands, Operands, int]  # writes, reads, no_reorder block


class LaunchState(running.Launch):
    """The state of a launch, or of one of its programs if it has two; see `Session`.

    ``trace`` is a list where a timeline is wanted, None elsewhere.
    """

    def __init__(self, dry: bool = False, record: bool = False, kernel: Any = None) -> None:
        self.chip: NeuronCore = hardware.current()
        self.partition_bytes = {
            MemoryRegion.sbuf: self.chip.sbuf_partition_bytes,
            MemoryRegion.psum: self.chip.psum_partition_bytes,
        }
        self.dry = dry
        self.kernel = kernel  # the function
        self.waived: set[str] = set()  # waived rules that the kernel broke
        self.trace: list[Traced] | None = [] if record or dry else None
        # The latest instructions of the trace, whose accesses are not noted: (waits, number, ...).
        self.unnoted: list[tuple[list[Any], int, Issue, Operands, Operands]] = []
        self.notes: list[Note] | None = None  # one for each entry of the trace, if wanted
        # The waits of an instruction that are not for data: (index of the first one, kind).
        self.wait_kinds: dict[int, list[tuple[int, str]]] = {}
        self.issues = shared_cache(self.chip, dtypes.is_precise())
        self.storages: list[Storage] = []
        # A tensor of each shape, dtype and memory on the chip, the first one.
        self.kinds: dict[tuple[Any, ...], NkiTensor] = {}
        self.unchecked_bytes = 0  # of tensors since the last look at this computer's memory
        self.created: dict[Storage, SourceLine | None] = {}  # the lines of tensors in HBM
        self.constants: set[Storage] = set()  # tensors that are filled before the kernel starts
        self.count = 0
        self.loop_scope: Any = None
        self.device_loop: Any = None  # the innermost loop on the device that runs
        # The begins and ends of loops in the trace, in order: (next instruction, loop).
        self.loop_marks: list[tuple[int, Any]] = []
        self.open_scopes: set[Any] = set()  # bodies of loops that run now
        self.no_reorder_depth = 0
        self.no_reorder_block = 0  # the number of blocks entered so far
        self.order_barrier: list[int] = []
        self.names: dict[str, int] = {}
        self.extra_edges: list[tuple[int, int]] = []
        self.banks: dict[int, tuple[Any, ...]] = {}  # the PSUM banks of an instruction, by number
        # For kept_order. A dry run has no log; it runs again if kept_order needs one.
        self.log: list[Logged] | None = None if dry else []
        self.order: list[int] | None = None  # None: program order satisfies the extra edges
        self.accumulators: dict[str, Array] = {}  # by engine
        self.generators: dict[str, Any] = {}  # of random numbers, by engine
        self.program_dimensions = 0
        self.program, self.programs = 0, 1  # index and number of programs in the launch grid
        self.holds_int64 = False
        self.scalars_made = 0  # NkiScalars that were loaded or passed to bodies of loops
        self.lives: list[Life] = []  # of registers that instructions needed
        self.config: Any = None  # the kernel's settings of the compiler
        self.warned = 0  # the number of warnings so far
        self.warnings: list[KernelWarning] = []
        self.told_unwritten: set[tuple[Any, ...]] = set()  # reads that were warned of
        self.is_over = False  # the kernel has returned
        self.lifetimes: list[tuple[int, int, Storage]] = []  # of its tiles, when it has returned

    def recorded(self) -> list[Traced]:
        """Returns the trace of a launch that is recorded."""
        self.note_accesses()
        assert self.trace is not None
        return self.trace

    def note_accesses(self) -> None:
        """Notes the accesses of the latest instructions, and what these wait for."""

    def note_waits(self, n: int, waits: list[Any], kind: str) -> None:
        """Gives a kind to what is appended to the waits of instruction ``n`` from now on."""
        self.wait_kinds.setdefault(n, []).append((len(waits), kind))

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: str,
        buffer: MemoryRegion,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> NkiTensor:
        """Returns a new tensor."""
        raise NotImplementedError

    def allocate_again(self, kind: tuple[Any, ...], name: str) -> NkiTensor:
        """Returns a new tensor of a kind in ``kinds``."""
        raise NotImplementedError

    def hold_constant(self, tensor: NkiTensor, array: Array) -> None:
        """Fills a tensor before the kernel starts."""

    def issue(self, issue: Issue, writes: Operands, reads: Operands, name: str | None) -> int:
        """Runs one instruction and returns its number."""
        raise NotImplementedError

    def run(self, issue: Issue, writes: Operands, reads: Operands) -> None:
        """Computes on operands with known addresses."""

    def check_written(self, issue: Issue, t: NkiTensor) -> None:
        """Warns if a tensor contains memory that nothing has written."""

    def warn_unwritten(self, issue: Issue, storage: Storage, lost: Marks) -> None:
        """Warns of an operand that nothing has written."""

    def warn_of(self, error: NkiValidationError, number: int | None = None) -> None:
        """Warns of an error that strict mode raises."""


current = cast("Callable[[], LaunchState | None]", running.current)
active = cast("Callable[[], LaunchState]", running.active)

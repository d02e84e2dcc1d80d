"""What instructions, rules and the timeline ask of a launch; a `launch.session.Session` answers.

The session lies above this room. `active` and `current` are those of `base.running`, with the type
that instructions need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from nki_sim.base import running
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import MemoryRegion
from nki_sim.errors import KernelWarning, NkiValidationError, SourceLine
from nki_sim.views.register import Life
from nki_sim.views.shadow import Marks
from nki_sim.views.tensor import NkiTensor, Storage

from .instruction_notes import Note
from .issue import Issue
from .issue_cache import IssueCache

Operands = Sequence[NkiTensor]
Traced = tuple[Issue, list[Any], str]  # waits (`rules.accesses.Wait`), name
Logged = tuple[Issue, Operands, Operands, int]  # writes, reads, no_reorder block


class LaunchState(running.Launch, Protocol):
    """The state of a launch, of one of its programs if it has two; see `Session`."""

    config: Any
    dry: bool
    kernel: Any
    program: int
    programs: int
    program_dimensions: int
    issues: IssueCache
    generators: dict[str, Any]  # of `isa.random_numbers`
    accumulators: dict[str, Array]
    storages: list[Storage]
    created: dict[Storage, SourceLine | None]
    constants: set[Storage]
    lives: list[Life]
    lifetimes: list[tuple[int, int, Storage]]
    trace: list[Traced] | None
    log: list[Logged] | None
    notes: list[Note] | None
    order: list[int] | None
    names: dict[str, int]
    extra_edges: list[tuple[int, int]]
    wait_kinds: dict[int, list[tuple[int, str]]]
    banks: dict[int, tuple[Any, ...]]
    device_loop: Any
    loop_marks: list[tuple[int, Any]]
    no_reorder_depth: int
    no_reorder_block: int
    order_barrier: list[int]
    waived: set[str]
    warned: int
    warnings: list[KernelWarning]

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: str,
        buffer: MemoryRegion,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> NkiTensor:
        """Returns a new tensor."""
        ...

    def hold_constant(self, tensor: NkiTensor, array: Array) -> None:
        """Fills a tensor before the kernel starts."""

    def issue(self, issue: Issue, writes: Operands, reads: Operands, name: str | None) -> int:
        """Runs one instruction and returns its number."""
        ...

    def run(self, issue: Issue, writes: Operands, reads: Operands) -> None:
        """Computes on operands with known addresses."""

    def check_written(self, issue: Issue, t: NkiTensor) -> None:
        """Warns if a tensor contains memory that nothing has written."""

    def warn_unwritten(self, issue: Issue, storage: Storage, lost: Marks) -> None:
        """Warns of an operand that nothing has written."""

    def warn_of(self, error: NkiValidationError, number: int | None = None) -> None:
        """Warns of an error that strict mode raises."""

    def recorded(self) -> list[Traced]:
        """Returns the trace of a launch that is recorded."""
        ...

    def note_waits(self, n: int, waits: list[Any], kind: str) -> None:
        """Gives a kind to what is appended to the waits of an instruction from now on."""


current = cast("Callable[[], LaunchState | None]", running.current)
active = cast("Callable[[], LaunchState]", running.active)

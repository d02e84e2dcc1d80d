"""What each instruction waits for if instructions of one stream may change places.

In program order an instruction follows the instructions before it in its stream, so that
`hazards` notes no wait for them. Here these waits are added:

- a write of a tile waits for all reads of the tile before it, and follows the writes of its stream;
- instructions that use state of their engine, such as accumulators, follow each other;
- an instruction at which two programs meet stays in its place in its queue, and among all meetings.
"""

from __future__ import annotations

from collections.abc import Sequence

from nki_sim.base.enums import ON_CHIP
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import LaunchState

from .joints import Joints


class OrderWaits:
    """The waits of a session's instructions, whatever the order of streams.

    The argument ``places`` has the place of each instruction in program order.

    Attributes:
        waits: for each instruction the waits, as numbers or joints.
        follows: for an instruction the waits that are over if its stream keeps that order.
        kinds: of an instruction the kinds of its waits, as in a session.
        joints: the waits that instructions share.
        issues: the different issues of the instructions.
    """

    def __init__(self, session: LaunchState, places: Sequence[int]) -> None:
        self.joints = Joints(session)
        # Lists of the session, which stay as they are.
        self.waits = self.joints.numbered([waits for _, waits, _ in session.recorded()])
        self.follows: dict[int, list[int]] = {}
        self.kinds = {n: [*kinds] for n, kinds in session.wait_kinds.items()}
        self._issues: list[Issue] = [issue for issue, _, _ in session.recorded()]
        self.issues = set(self._issues)
        # "" stands for DMA, which has no order.
        streams = {one: "" if one.engine == "dma" else one.queue for one in self.issues}
        self._streams = [streams[issue] for issue in self._issues]
        for storage in session.storages:
            if storage.buffer in ON_CHIP and storage.accesses:
                if storage.is_tracked_whole:
                    accesses = storage.accesses
                    if session.order is not None:
                        accesses = sorted(accesses, key=lambda n: places[n if n >= 0 else ~n])
                    self._add_waits_of(accesses)
                else:
                    self._keep_streams(sorted(storage.users(), key=places.__getitem__))
        self._keep_states_and_meetings(session.order or range(len(self._issues)))

    def add(self, n: int, waits: Sequence[int], kind: str = "") -> None:
        """Makes instruction ``n`` wait, for data if there is no kind."""
        if kind or n in self.kinds:
            self.kinds.setdefault(n, []).append((len(self.waits[n]), kind))
        self.waits[n] = [*self.waits[n], *waits]

    def _keep_states_and_meetings(self, order: Sequence[int]) -> None:
        """Adds waits of instructions that use an engine's state or meet the other program."""
        meets = any(issue.meets is not None for issue in self.issues)
        if not meets and not any(issue.uses_state for issue in self.issues):
            return
        last: dict[str, int] = {}  # the last such instruction of a queue
        met: dict[str, int] = {}
        last_met = -1  # in any queue: both programs keep the order of all meetings
        since: dict[str, list[int]] = {}  # what a queue has run since it met the other program
        for n in order:
            issue = self._issues[n]
            queue = issue.queue
            if issue.uses_state:
                if queue in last:
                    self._follow(n, [~last[queue]])
                last[queue] = n
            if not meets:
                continue
            if queue in met:
                self._follow(n, [~met[queue]])
            since.setdefault(queue, []).append(n)
            if issue.meets is not None:
                self._follow(n, self.joints.joined([~m for m in since[queue] if m != n]))
                if last_met >= 0:
                    self._follow(n, [~last_met])
                met[queue], since[queue], last_met = n, [], n

    def _follow(self, n: int, waits: list[int]) -> None:
        if n in self.follows:
            self.follows[n] += waits
        else:
            self.follows[n] = [*waits]

    def _add_waits_of(self, accesses: list[int]) -> None:
        """Adds the waits of writes of a tile; see ``Storage.accesses``.

        A read waits for all writes before it. So a write that waits for the reads since the last
        write comes after all that was before these reads.
        """
        readers: list[int] = []
        before: dict[str, list[int]] = {}
        written: dict[str, int] = {}
        last, streams = -1, self._streams
        for access in accesses:
            if access >= 0:
                readers.append(access)
                continue
            n = ~access
            if n == last:  # it writes two parts of the tile
                continue
            last = n
            stream = streams[n]
            others = readers and [m for m in readers if m != n]
            if others:
                before = self._by_stream(others)
            for other, found in before.items():
                if stream and other == stream:
                    self._follow(n, found)
                else:
                    self.add(n, found)
            if stream in written:
                self._follow(n, [~written[stream]])
            if readers:
                written = {}
                if len(others) < len(readers):  # later writes wait for this read, too
                    before = {stream: [~n]}
                readers = []
            if stream:
                written[stream] = n

    def _keep_streams(self, users: list[int]) -> None:
        """Keeps each stream's order in a tile whose parts are tracked by themselves."""
        last: dict[str, int] = {}
        for n in users:
            if stream := self._streams[n]:
                if stream in last:
                    self._follow(n, [~last[stream]])
                last[stream] = n

    def _by_stream(self, readers: list[int]) -> dict[str, list[int]]:
        """Returns waits for the ends of instructions by their stream."""
        found: dict[str, list[int]] = {}
        for m in readers:
            stream = self._streams[m]
            if stream in found:
                found[stream].append(~m)
            else:
                found[stream] = [~m]
        return {stream: self.joints.joined(waits) for stream, waits in found.items()}

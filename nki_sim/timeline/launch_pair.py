"""What the timeline asks of a launch on two cores; a `launch.pair.Pair` answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nki_sim.instructions.launch_state import LaunchState


class LaunchPair(Protocol):
    """The two programs of a launch, and where they met."""

    meetings: list[tuple[int, int]]

    @property
    def sessions(self) -> Sequence[LaunchState]:
        """The state of both programs."""

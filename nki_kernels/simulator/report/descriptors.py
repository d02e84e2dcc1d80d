"""When GpSimdE writes the descriptors of DMA."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nki_kernels.simulator.timeline import Timeline


def descriptor_ends(timeline: Timeline) -> dict[int, float]:
    """When GpSimdE has written a DMA's descriptors, by the index of its event.

    It begins with them at ``start_ns`` of the event. Transfers whose descriptors hardware or the
    host writes are not here.
    """
    found = {}
    for launch in timeline._launches:
        schedule = launch.schedule
        for n, (issue, *_) in enumerate(schedule.trace):
            if issue.uses_software_dge:
                end = schedule.start[n] + issue.trigger_ns
                found[launch.first + n] = launch.base + end
    return found

"""The accumulator registers of VectorE and ScalarE, of which each lane has one."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_sim import hardware
from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import reduce_cmd
from nki_sim.instructions.launch_state import active
from nki_sim.views.tensor import NkiTensor

REDUCING = (reduce_cmd.reduce, reduce_cmd.reset_reduce)
_RESETTING = (reduce_cmd.reset, reduce_cmd.reset_reduce)


def accumulator(
    instruction: str,
    engine: str,
    cmd: reduce_cmd,
    lanes: slice,
    identity: float = 0.0,
    initial: float = 0.0,
    load: Array | None = None,
) -> Any:
    """Returns the registers of an engine's lanes, which a command sets to ``identity`` on a reset.

    The command load_reduce sets them to ``load``. Warns if the instruction uses registers that
    nothing in this kernel has reset or loaded, so that they hold values of earlier kernels; these
    are ``initial`` here.
    """
    session = active()
    registers = session.accumulators
    if engine not in registers:
        if cmd in (reduce_cmd.idle, reduce_cmd.reduce):
            rule = "nothing has reset the accumulator registers: use reduce_cmd.reset_reduce first"
            session.warn(instruction, "reduce_cmd", cmd.name, rule)
        registers[engine] = np.full(hardware.PARTITIONS, initial, np.float32)
    found = registers[engine][lanes]
    if cmd in _RESETTING:
        found[...] = identity
    elif load is not None:
        found[...] = load
    return found


def store_result(outs: list[Array], value: Array, reduce_res: NkiTensor | None) -> None:
    """Writes registers to the second operand of an instruction, if it has ``reduce_res``."""
    if reduce_res is not None:
        value = np.asarray(value, np.float32).reshape(outs[1].shape)
        dtypes.store(outs[1], value, reduce_res.dtype)

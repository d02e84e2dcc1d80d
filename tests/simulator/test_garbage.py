"""A launch leaves no objects that only Python's garbage collector could free; it waits meanwhile.

The test runs in a process of its own, because objects of other tests would count, too.
"""

import subprocess
import sys

PROGRAM = '''
import gc

import numpy as np

import nki_sim

from nki_sim import hardware
from nki_kernels.base.isa import nisa, nki, nl


def looped(x):
    """A load, a matmul, a loop on the device and a store."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    bank = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)

    def body(_):
        nisa.nc_matmul(bank, tile, tile, accumulate=False)
        nisa.tensor_copy(tile, bank)

    nl.fori_loop(0, 3, body)
    nl.store(out, tile)
    return out


def shared(x):
    """A copy, half of it by each of two cores."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    first = 32 * nl.program_id(0)
    nl.store(out[first : first + 32], nl.load(x[first : first + 32]))
    return out


def shared_in_loop(x):
    """A loop on each of two cores, whose index is an address."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    first = 32 * nl.program_id(0)

    def body(row):
        here, there = [t.ap([[64, 1], [1, 64]], 64 * first, row, indirect_dim=0) for t in (x, out)]
        nl.store(there, nl.load(here))

    nl.fori_loop(0, 32, body)
    return out


def on_two_cores(run, kernel=shared):
    with hardware.select(hardware.chip("trn2")):
        return run(nki.simulate(kernel).with_programs(2))


def recorded():
    with nki_sim.record() as timeline:
        nki.simulate(looped)(x)
    return timeline.total_ns


x = np.eye(64, dtype=np.float32)
launches = [
    lambda: nki_sim.dry_run(looped, x),
    lambda: nki.simulate(looped)(x),
    recorded,
    lambda: on_two_cores(lambda kernel: nki_sim.dry_run(kernel, x)),
    lambda: on_two_cores(lambda kernel: kernel(x)),
    lambda: on_two_cores(lambda kernel: nki_sim.dry_run(kernel, x), shared_in_loop),
]
for launch in launches:
    launch()  # makes what caches keep
    gc.collect()
    gc.disable()
    launch()
    print(gc.collect())
    gc.enable()
'''


def test_a_launch_leaves_no_garbage(tmp_path):
    script = tmp_path / "launches.py"
    script.write_text(PROGRAM)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["0"] * 6, "")

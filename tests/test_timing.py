"""Programs time a device by waiting for it, never by events of torch_neuronx."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = (
    "trnfft",
    "trnfft_demo",
    "nki_kernels",
    "nki_sim",
    "bench",
    "scripts",
    "examples",
    "packages",
)


def event_timing(tree: ast.AST) -> list[int]:
    """Returns the lines that name an event's `elapsed_time`, or an `Event` of a module of torch."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            is_event = node.attr == "Event" and owner.startswith("torch")
            if is_event or node.attr == "elapsed_time":
                found.append(node.lineno)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            found += [node.lineno for name in node.names if name.name == "Event"]
    return found


def modules():
    return [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.py"))]


def test_no_module_times_by_events():
    """`torch_neuronx.Event.elapsed_time` returns 25 to 30 us whatever runs."""
    assert len(modules()) > 200
    found = {path: event_timing(ast.parse(path.read_text("utf-8"))) for path in modules()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import torch_neuronx\nstart = torch_neuronx.Event(enable_timing=True)", [2]),
        ("start = torch.neuron.Event()\nend = 1", [1]),
        ("from torch_neuronx import Event", [1]),
        ("start.elapsed_time(end)", [1]),
        ("import threading\ngo = threading.Event()", []),
        ("from nki_sim.timeline.recording import Event", []),
    ],
)
def test_what_counts_as_timing_by_events(source, lines):
    assert event_timing(ast.parse(source)) == lines


def test_the_device_neuron_is_waited_for():
    """Both programs that time the device wait for it: the benchmarks, and `trnfft check`."""
    program = """
import types
import torch
calls = []
torch.accelerator.synchronize = lambda: calls.append("bench")
torch.neuron = types.SimpleNamespace(synchronize=lambda: calls.append("check"))
from bench.measurement import waiting
from trnfft.distributed.check.stopwatch import synchronizer
waiting("neuron")()
synchronizer("neuron")()
print(calls)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "['bench', 'check']\n", done.stderr

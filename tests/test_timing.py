"""Programs time a device by waiting for it, never by events of torch_neuronx."""

import ast
import re
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("trnfft", "trnfft_demo", "nki_kernels", "nki_sim", "bench", "scripts", "examples")


def event_timing(tree):
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
    return [path for name in (*FOLDERS, "packages") for path in sorted((ROOT / name).rglob("*.py"))]


def test_no_module_times_by_events():
    """`torch_neuronx.Event.elapsed_time` returns 25 to 30 us whatever runs."""
    texts = {path: path.read_text("utf-8") for path in modules()}
    assert len(texts) > 200
    named = {path: text for path, text in texts.items() if re.search("Event|elapsed_time", text)}
    found = {path: event_timing(ast.parse(text)) for path, text in named.items()}
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


def test_the_device_neuron_is_waited_for(monkeypatch):
    """Both programs that time the device wait for it: the benchmarks, and `trnfft check`."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("pydantic")  # of the extra bench
    from bench.measurement import waiting
    from trnfft.distributed.check.stopwatch import synchronizer

    calls = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: calls.append("bench"))
    device = types.SimpleNamespace(synchronize=lambda: calls.append("check"))
    monkeypatch.setattr(torch, "neuron", device, raising=False)
    waiting("neuron")()
    synchronizer("neuron")()
    assert calls == ["bench", "check"]

"""What runs operations, and what holds their numbers, is asked at the door alone."""

import ast
from pathlib import Path

import pytest
import torch

import trnfft
from trnfft.ops.operand import operand_of

ROOT = Path(trnfft.__file__).parent
ASKED = {"is_compiling", "is_exporting", "is_tracing", "is_sharded"}


def questions(path: Path) -> set[str]:
    """Returns the functions of ASKED that a file calls; a field of an operand is no call."""
    calls = [
        node.func
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
    ]
    return ASKED & {getattr(f, "attr", None) or getattr(f, "id", "") for f in calls}


@pytest.mark.parametrize("room", ["ops", "backends", "planner"])
def test_only_the_operand_asks(room: str) -> None:
    asking = {path.name for path in (ROOT / room).rglob("*.py") if questions(path)}
    assert asking == ({"operand.py"} if room == "ops" else set())


def test_operands_of_tensors() -> None:
    x = torch.ones(3)
    z = trnfft.ComplexTensor(x, 2 * x)
    with trnfft.backend("matmul"), trnfft.precision("kahan"):
        real, split = operand_of(x), operand_of(z)
        native = operand_of(torch.complex(x, x))
    assert (real.is_complex, split.is_complex, native.is_complex) == (False, True, True)
    assert [len(operand.parts) for operand in (real, split, native)] == [1, 2, 1]
    for operand in (real, split, native):
        assert (operand.mode, operand.backend, operand.precision) == ("eager", "matmul", "kahan")
        assert not operand.is_sharded and not operand.is_in_graph and not operand.gives_native
    assert operand_of(x).gives_native and not operand_of(z).gives_native


def test_modes() -> None:
    modes = []

    def note(x: torch.Tensor) -> torch.Tensor:
        modes.append(operand_of(x).mode)
        return x + 1

    class Note(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + (1 if operand_of(x).mode == "exported" else 2)

    x = torch.zeros(2)
    note(x)
    torch.jit.trace(note, x, check_trace=False)
    torch.compile(note, backend="eager", fullgraph=True)(x)
    assert modes == ["eager", "traced", "compiled"]
    assert torch.export.export(Note(), (x,)).module()(x).tolist() == [1, 1]

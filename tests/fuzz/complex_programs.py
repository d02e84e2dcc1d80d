"""Random programs on complex tensors: views, writes in place, reads, transforms, backward.

A program is a list of lines of Python. The names that make complex tensors, and those of the
transforms, are bound to torch's own for complex128, and to this library's for ComplexTensors: what
both runs hold at the end has to be the same. Lines are chosen by running the program on complex128
as it grows, so that shapes fit; a program ends with the first line at which torch raises an error.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import torch

import trnfft
from trnfft import ComplexTensor

SHAPES = [(), (3,), (2, 3), (3, 3), (4, 2), (2, 1, 3)]

# How a ComplexTensor is made, and its native twin, of the leaves a0, a1, ... which are real.
SOURCES = [
    "fft({a})",
    "rfft({a})",
    "ifft({a})",
    "made({a}, {b})",
    "split(native({a}, {b}))",
    "split(native({a}, {b}).detach())",
    "from_numpy(native({a}, {b}).detach().numpy().copy())",
    "polar({a}.abs() + 1, {b})",  # of which torch has the derivative right
    "torch.nn.Parameter(made({a}, {b}).detach())",
    "made({a}, {b}).detach()",
    "made({a}, {b}).detach().requires_grad_()",
    "made({a}, {b}) * 1",
]

# What has a result; {z} is complex, {x} is any tensor, {i} a dimension, {k} an index of it.
VIEWS = [
    "{x}[{k}]",
    "{x}[:1]",
    "{x}[..., 1:]",
    "{x}[..., None]",
    "{x}[...]",
    "{x}.t()",
    "{x}.mT",
    "{x}.view(-1)",
    "{x}.reshape(-1) * 1",
    "{x}.diagonal()",
    "{x}.transpose(0, -1)",
    "{x}.unsqueeze(0)",
    "{x}.squeeze()",
    "{x}.expand(2, *{x}.shape)",
    "{x}.narrow({i}, 0, 1)",
    "{x}.select({i}, {k})",
    "{x}.unbind({i})[0]",
    "{x}.split(1, {i})[0]",
    "{x}.chunk(2, {i})[-1]",
    "{x}.flatten() * 1",
    "{x}.movedim(0, -1)",
    "{x}.unfold({i}, 1, 1)",
    "{x}.detach()",
    "{x}.alias() if hasattr({x}, 'alias') else {x}.view_as({x})",
    "{z}.real",
    "{z}.imag",
    "{z}.conj()",
    "{z}.mH",
    "torch.view_as_real({z})",
    "{z}.conj().imag",
]
READS = [
    "{x} * 2",
    "{z} * 1j",
    "{x} + {y}",
    "{x} * {y}",
    "{z} - {z}.conj()",
    "{z}.abs()",
    "({z} + (9 + 9j)).angle()",
    "{x}.sum()",
    "{x}.mean(0)",
    "torch.exp({x})",
    "torch.where({x}.abs() > 0.5, {x}, 2 * {x})",
    "{x} @ {x}.mT",
    "torch.cat([{x}, {x}])",
    "torch.stack([{x}, {y}])",
    "{z}.real * {z}.imag",
    "{z}.resolve_conj()",
    "{x}.clone()",
    "fft({z})",
    "ifft({z})",
    "irfft({z})",
    "hfft({z})",
    "fftn({z})",
    "torch.einsum('...a,...a->...', {z}, {z})",
    "{z} / ({z} * 0 + 3)",
    "checkpoint(lambda v: v * v, {z}, use_reentrant=False)",
]
WRITES = [
    "{x}.mul_(2)",
    "{z}.mul_(1j)",
    "{x}.add_({y})",
    "{x}.mul_({y})",
    "{x}.copy_({y})",
    "{x}.fill_(2)",
    "{x}.zero_()",
    "{x}.neg_()",
    "{z}.conj_physical_()",
    "{x}[:1] = 3",
    "{x}[0] = {y}",
    "{x}[..., -1] = {y}",
    "{x}[{x}.abs() > 0.5] = 1",
    "{x} += 1",
    "{z}.real = {z}.imag",
    "{z}.imag = {z}.real * 2",
    "{z}.real.mul_(3)",
    "{z}.imag[...] = 1",
    "{z}.real[:1] *= 2",
    "{z}.real.copy_({r})",
    "{z}.imag.add_({r})",
    "torch.view_as_real({z}).mul_(2)",
    "{z}.conj().mul_(2j)",
    "{z}.conj().imag.add_(1)",
    "{x}.masked_fill_({x}.abs() > 0.5, 1)",
    "{x}.addcmul_({x}, {x})",
    "{x}.t_()",
    "{x}.unsqueeze_(0)",
    "{x}.requires_grad_()",
    "{x}.retain_grad()",
    "{x}.index_put_((torch.tensor([0]),), {x}[:1].detach() + 1)",
    "{x}.detach().mul_(2)",
]
UNDER_NO_GRAD = [
    "{x}.mul_(2)",
    "{z}.real.mul_(2)",
    "{z}.imag.zero_()",
    "{z}.mul_(1j)",
    "{x}[:1] = 1",
]
GRADIENTS = [
    "weigh({x}).backward(retain_graph=True)",
    "{n} = torch.autograd.grad(weigh({x}), {x}, create_graph=True, allow_unused=True)[0]",
    "{n} = torch.autograd.grad({z}, {z}, native_like({z}), create_graph=True)[0]",
    "{n} = torch.autograd.grad(weigh({x}), a0, create_graph=True, allow_unused=True)[0]",
]


def weigh(x: Any) -> torch.Tensor:
    """A real number that depends on each element of a tensor in another way."""
    count = torch.arange(1.0, x.numel() + 1, dtype=torch.float64).reshape(x.shape) / 3
    if not x.is_complex():
        return (x * count).sum()
    return (x.real * count).sum() + (x.imag * count * count).sum()


def native_like(z: Any) -> torch.Tensor:
    """A native gradient for a complex tensor of either kind."""
    count = torch.arange(1.0, z.numel() + 1, dtype=torch.float64).reshape(z.shape)
    return torch.complex(count, 1 - count)


def _with_matmul(function: Any) -> Any:
    def transform(*args: Any) -> Any:
        with trnfft.backend("matmul"):
            return function(*args)

    return transform


def _resolved(function: Any) -> Any:
    """torch's transform, some results of which are conjugated lazily."""
    return lambda x: function(x).resolve_conj()


_TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "fftn")
_COMMON = {
    "torch": torch,
    "native": torch.complex,
    "native_like": native_like,
    "weigh": weigh,
    "checkpoint": torch.utils.checkpoint.checkpoint,
}
NATIVE = {
    **_COMMON,
    **{name: _resolved(getattr(torch.fft, name)) for name in _TRANSFORMS},
    "made": torch.complex,
    "split": torch.clone,
    "from_numpy": torch.from_numpy,
    "polar": torch.polar,
}
SPLIT = {
    **_COMMON,
    **{name: _with_matmul(getattr(trnfft, name)) for name in _TRANSFORMS},
    "made": ComplexTensor,
    "split": ComplexTensor.from_complex,
    "from_numpy": ComplexTensor.from_numpy,
    "polar": ComplexTensor.from_polar,
}


@dataclass
class Program:
    """Lines of Python, how the leaves that they begin with are made, and what torch does.

    Attributes:
        leaves: shape and requires_grad of a0, a1, ..., which are real.
        lines: of the program.
        error: of the last line on complex128; "" for none.
    """

    leaves: list[tuple[tuple[int, ...], bool]]
    lines: list[str] = field(default_factory=list)
    error: str = ""

    def __str__(self) -> str:
        made = [f"a{i}: {shape} {'leaf' if grad else ''}" for i, (shape, grad) in self._numbered()]
        return "\n".join([*made, *self.lines, f"native: {self.error or 'no error'}"])

    def _numbered(self) -> Any:
        return enumerate(self.leaves)

    def start(self, names: dict[str, Any]) -> dict[str, Any]:
        """The names that the lines find."""
        found = dict(names)
        for i, (shape, grad) in self._numbered():
            generator = torch.Generator().manual_seed(i)
            found[f"a{i}"] = torch.randn(shape, dtype=torch.float64, generator=generator)
            found[f"a{i}"].requires_grad_(grad)
        return found

    def run(self, names: dict[str, Any]) -> dict[str, Any]:
        """All that the lines leave."""
        found = self.start(names)
        for line in self.lines:
            exec(line, found)
        return found


def held(found: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors among what a program left."""
    return {name: x for name, x in found.items() if isinstance(x, torch.Tensor)}


def drawn(seed: int) -> Program:
    """A random program of two to six steps, that ends in a backward pass where it can."""
    draw = random.Random(seed)
    shape = draw.choice(SHAPES)
    program = Program([(shape, draw.random() < 0.8), (shape, draw.random() < 0.6)])
    found = program.start(NATIVE)
    for i in range(draw.choice([1, 1, 2])):
        source = draw.choice(SOURCES).format(a="a0", b=draw.choice(["a0", "a1"]))
        if not _tried(program, found, f"z{i} = {source}"):
            return program
    for i in range(draw.randint(2, 6)):
        if not _tried(program, found, _line(draw, found, f"t{i}")):
            return program
    tensors = [name for name, x in held(found).items() if x.requires_grad and x.numel()]
    for name in draw.sample(tensors, min(len(tensors), draw.choice([1, 1, 2, 3]))):
        if not _tried(program, found, f"weigh({name}).backward(retain_graph=True)"):
            return program
    return program


def _line(draw: random.Random, found: dict[str, Any], name: str) -> str:
    kind = draw.choice("VVVVWWWWWRRRRNG")
    names = held(found)
    complexes = [n for n, x in names.items() if x.is_complex()]
    made = [n for n in names if not n.startswith("a")] or list(names)
    x, y = draw.choice(made), draw.choice(list(names))
    given = {
        "x": x,
        "y": y,
        "z": draw.choice(complexes),
        "r": draw.choice([n for n, value in names.items() if not value.is_complex()]),
        "i": draw.randrange(max(names[x].ndim, 1)),
        "k": draw.choice([0, -1]),
        "n": name,
    }
    lines = {"V": VIEWS, "R": READS, "W": WRITES, "N": UNDER_NO_GRAD, "G": GRADIENTS}[kind]
    line = draw.choice(lines).format(**given)
    if kind in "VR":
        return f"{name} = {line}"
    return f"with torch.no_grad(): {line}" if kind == "N" else line


def _tried(program: Program, found: dict[str, Any], line: str) -> bool:
    """Whether torch runs a line, which becomes one of the program."""
    program.lines.append(line)
    try:
        exec(line, found)
    except Exception as error:
        program.error = f"{type(error).__name__}: {error}"
        return False
    return True

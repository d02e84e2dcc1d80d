"""Values of arguments, as text, so that a case can be printed and pasted into Python.

Each kind of argument has usual values and hostile values. `OMIT` leaves an argument out.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import trnfft

OMIT = ""


@dataclass(frozen=True)
class Argument:
    """The values of an argument in cases, as texts."""

    usual: tuple[str, ...]
    hostile: tuple[str, ...] = ()  # HOSTILE where there are no others

    def __or__(self, other: "Argument") -> "Argument":
        return Argument(self.usual + other.usual, self.hostile + other.hostile)


def value(text: str) -> object:
    """Returns the value of a text. Random numbers are the same each time."""
    torch.manual_seed(len(text))
    names = {"torch": torch, "np": np, "trnfft": trnfft, "ComplexTensor": trnfft.ComplexTensor}
    names["Path"] = Path
    return eval(text, names | {"nan": float("nan"), "inf": float("inf"), "randn": torch.randn})


_NO_TENSORS = (
    *("None", "'abc'", "True", "3.5", "[1.0, 2.0]", "np.ones(4)", "object()", "2**70", "torch"),
    *("torch.Tensor", "()"),
)
_REAL = (
    "randn(12)",
    "randn(1)",
    "randn(3, 8)",
    "randn(2, 3, 5)",
    "randn(300)",
    "randn(2, 97)",
    "randn(6, dtype=torch.float64)",
    "randn(4, 9).half()",
    "randn(4, 9).bfloat16()",
    "randn(8, 4).T",
    "randn(1, 6).expand(4, 6)",
    "randn(20)[::3]",
    "randn(9).as_strided((4, 3), (1, 2))",
    "randn(5, 4, requires_grad=True)",
    "torch.nn.Parameter(randn(6))",
)
_COMPLEX = (
    "randn(12, dtype=torch.complex64)",
    "randn(4, 7, dtype=torch.complex128)",
    "randn(3, 8, dtype=torch.complex64).conj()",
    "randn(3, 8, dtype=torch.complex64).conj().imag",
    "ComplexTensor(randn(3, 8), randn(3, 8))",
    "ComplexTensor(randn(2, 3, 5), randn(2, 3, 5)).conj()",
)
_ODD_TENSORS = (
    "randn(())",
    "randn(0)",
    "randn(3, 0)",
    "randn(0, 4)",
    "randn(2, 0, 5)",
    "torch.ones(4, 4, dtype=torch.bool)",
    "torch.ones(4, 4, dtype=torch.int8)",
    "torch.ones(4, 4, dtype=torch.uint16)",
    "torch.full((4, 4), 2**62)",
    "randn(4, 4).to(torch.float8_e4m3fn)",
    "randn(4, 4).to(torch.float8_e8m0fnu)",
    "randn(4, 4, dtype=torch.complex64).to(torch.complex32)",
    "torch.quantize_per_tensor(randn(4, 4), 0.1, 0, torch.quint8)",
    "torch.quantize_per_tensor(randn(4, 4), 0.1, 0, torch.qint32)",
    "torch.empty(4, dtype=torch.bits8)",
    "randn(4, 4).to_sparse()",
    "randn(4, 4).to_sparse_csr()",
    "randn(4, 4, dtype=torch.complex64).to_sparse()",
    "randn(4, 4).to_mkldnn()",
    "torch.nested.nested_tensor([randn(2), randn(3)])",
    "torch.nested.nested_tensor([randn(2), randn(3)], layout=torch.jagged)",
    "randn(4, 4, device='meta')",
    "randn(4, 4, dtype=torch.complex64, device='meta')",
    "torch.empty(2**40, device='meta')",
    "torch.full((4, 4), nan)",
    "torch.full((4, 4), inf)",
    "torch.full((4, 4), 3e38)",
    "torch.full((4, 4), 1e-45)",
    "randn(1).expand(2**31)",
    "randn(1).expand(2**40)",
    "randn(1).expand(2**62)",
    "randn(1, 4).expand(2**38, 4)",
    "randn(1, 1, 4, 4).expand(2**20, 2**18, 4, 4)",
    "randn(1, 1).expand(2**22, 2**22)",
    "torch.empty(2**40, 0)",
    "torch.ones((1,) * 64)",
    "torch.inference_mode()(randn)(4, 4)",
    "ComplexTensor(randn(4, 4).half(), randn(4, 4).half())",
    "ComplexTensor(randn(4, 4).bfloat16(), randn(4, 4).bfloat16())",
    "ComplexTensor(randn(4, 0), randn(4, 0))",
    "ComplexTensor(randn(()), randn(()))",
    "ComplexTensor(randn(4, device='meta'), randn(4, device='meta'))",
)
# Any argument that is no tensor gets any of these; those that suit it have to be computed with.
HOSTILE = (
    "None",
    "True",
    "'8'",
    "3.0",
    "nan",
    "inf",
    "1j",
    "-1",
    "0",
    "-(2**63)",
    "2**31",
    "2**40",
    "2**61 - 1",
    "2**63",
    "10**30",
    "10**5000",
    "-(10**5000)",
    "np.int64(4)",
    "np.float32(4)",
    "np.array([4, 4])",
    "torch.tensor(4)",
    "torch.tensor(True)",
    "torch.tensor(4.0)",
    "torch.tensor([2, 3])",
    "torch.empty((), dtype=torch.int64, device='meta')",
    "randn(3)",
    "object()",
    "[]",
    "[4]",
    "(3, 4)",
    "(2**40, 2**40)",
    "('a', 'b')",
    "[[4]]",
    "{}",
    "{3: 4}",
    "b'ab'",
    "range(2)",
    "int",
    "iter([4])",
    "'x'",
    "''",
    "'a' * 10**6",
    "3",
    "['zero']",
    "np.array(['zero', 'full'])",
    "str",
    "torch.tensor([True, False])",
    "np.bool_(1)",
    "-inf",
    "1e308",
    "-1e308",
    "-(10**6)",
    "1e-320",
    "np.float16(0.5)",
    "torch.tensor([0.5, 0.5])",
    "torch.empty((), device='meta')",
    "nan + 1j",
    "1e-200 + 1e-200j",
    "1e200j",
    "np.complex64(1 + 1j)",
    "randn(())",
    "'float32'",
    "torch.int8",
    "torch.bool",
    "torch.complex64",
    "torch.float8_e4m3fn",
    "torch.quint8",
    "torch.bfloat16",
    "torch.float16",
    "float",
    "np.float32",
    "'cuda'",
    "'cuda:99'",
    "'meta'",
    "'.'",
    "'/'",
    "'missing/a'",
    "'a' * 5000",
    "'\\0'",
    "'\\udcff'",
    "'\\ud800'",
    "np.str_('a')",
    "np.ones(4)[::-1]",
    "np.ones(4, '>f8')",
    "np.ones(4, '>c16')",
    "np.ones(4, np.longdouble)",
    "np.ones(4, np.clongdouble)",
    "np.ones((0, 3))",
    "np.broadcast_to(1.0, (2**40,))",
    "np.broadcast_to(1j, (2**20, 2**20))",
    "np.frombuffer(bytes(17), np.uint8)[1:].view(np.complex128)",
    "np.ones(4, 'f4, f8')",
    "np.ones(4, object)",
    "np.ma.masked_array(np.ones(3), [0, 1, 0])",
    "np.ones(3, np.int64)",
    "np.float64(3)",
    "[1.0, 2.0]",
)

TENSOR = Argument(_REAL + _COMPLEX, _ODD_TENSORS + _NO_TENSORS)
REAL = Argument(_REAL, _ODD_TENSORS + _NO_TENSORS + _COMPLEX)
COMPLEX = Argument(_COMPLEX, _ODD_TENSORS + _NO_TENSORS + _REAL)
OUT = Argument((OMIT,), _REAL + _COMPLEX + _ODD_TENSORS + _NO_TENSORS)
FLAG = Argument((OMIT, "True", "False"))
NUMBER = Argument((OMIT, "0.5", "1", "0.1"))
COMPLEX_NUMBER = Argument((OMIT, "1", "0.6 + 0.8j", "1j", "-1", "np.exp(-0.3j)"))
ARRAY = Argument(
    (
        "np.ones((3, 4))",
        "np.arange(6, dtype=np.complex64)",
        "np.ones(5, np.float16)",
        "np.array(1j)",
        "np.ones((4, 6), np.complex128).T[::2]",
    )
)
PATH = Argument(("'a'", "Path('b')", "'é b'"))
DEVICE = Argument((OMIT, "'cpu'", "torch.device('cpu')"))
DTYPE = Argument((OMIT, "torch.float32", "torch.float64"))


def ints(*usual: str) -> Argument:
    """Returns an argument that is an int, or several, with these usual values."""
    return Argument(usual)


def names(*usual: str) -> Argument:
    """Returns an argument that is a name, with these known names."""
    return Argument(tuple(map(repr, usual)))


def optional(argument: Argument) -> Argument:
    """Returns an argument that is left out as often as it has one of its usual values."""
    return Argument((OMIT,) * len(argument.usual) + argument.usual, argument.hostile)


def tensors(*usual: str) -> Argument:
    """Returns an argument that is a tensor, with these suitable values."""
    return Argument(usual, TENSOR.usual + TENSOR.hostile)

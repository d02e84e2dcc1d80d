"""The table of torch's operators on ComplexTensor: those that pass all of torch's own samples.

The samples come from OpInfo, torch's list of its operators; they are those with a complex tensor
among their arguments. Results and derivatives have to equal those of native complex64, and no step
may make a native complex tensor, except on the host. The operators that the host computes have a
table of their own. This command writes the tables into docs/complex_operators.md:

    python -m tests.trnfft.complex.operators_table
"""

import contextlib
import functools
import pathlib
import re
import warnings
from unittest import mock

import torch
from torch.testing._internal import common_utils
from torch.testing._internal.opinfo import core
from torch.utils._pytree import tree_leaves, tree_map

import trnfft
from tests.trnfft.complex.comparison import assert_same
from tests.trnfft.complex.strict import NoComplexDtypes
from trnfft import ComplexTensor
from trnfft.complex.parts import of_parts

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "complex_operators.md"
START, END = "<!-- table -->", "<!-- end of table -->"
START_ON_HOST, END_ON_HOST = "<!-- table of the host -->", "<!-- end of the host's table -->"

# Roundings one after the other, where they are more than 400: exponents multiply those of a
# logarithm, and arguments of cov are as large as 9.
STEPS = {"pow": 2000, "__rpow__": 2000, "cov": 8000}

# Of numbers drawn by chance, only shape and dtype are compared.
RANDOM = {
    *("empty_like", "new_empty", "new_empty_strided"),
    *("rand_like", "randn_like", "normal", "uniform"),
    "nn.functional.feature_alpha_dropout",
}


@functools.cache
def entries():
    """The entries of OpInfo for complex64, by name and variant."""
    from torch.testing._internal.common_methods_invocations import op_db  # takes seconds

    found = [entry for entry in op_db if torch.complex64 in entry.dtypes]
    return {_name(x): x for x in found}


def _name(entry):
    return " ".join(filter(None, (entry.name, entry.variant_test_name)))


def has_derivative(entry):
    return entry.supports_autograd and torch.complex64 in entry.supported_backward_dtypes("cpu")


@contextlib.contextmanager
def drawn_quickly():
    """A context in which torch's samples are drawn without a look at the stack of calls.

    torch looks for the test of its own that asks for samples, which takes longer than most of them,
    and sets a seed before each. For devices that are not here it notes the seed with the stack.
    """
    with (
        mock.patch.object(common_utils, "extract_test_fn", lambda: None),
        mock.patch.object(core, "extract_test_fn", lambda: None),
        mock.patch.object(torch, "manual_seed", torch.default_generator.manual_seed),
    ):
        yield


def in_place(entry):
    """The entry's function that writes, into a copy of its first argument."""
    return lambda x, *args, **kwargs: entry.inplace_variant(x.clone(), *args, **kwargs)


def check(entry, limit=None, function=None):
    """Compare all samples, or `limit` spread over them.

    function: that of the entry by default.

    Returns how many have a complex tensor, and the names of the functions that the host computed.
    What differs is an AssertionError, and what is not there the operator's own error.
    """
    mode = NoComplexDtypes()
    with warnings.catch_warnings(), trnfft.backend("matmul"), drawn_quickly():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        samples = entry.sample_inputs("cpu", torch.complex64, requires_grad=has_derivative(entry))
        if limit is not None:
            samples = list(samples)
            samples = samples[:: -(-len(samples) // limit) or 1]
        function = function or entry
        return sum(_check_sample(entry, function, x, mode) for x in samples), mode.of_host


def _check_sample(entry, function, sample, mode):
    """False for a sample without a complex tensor, and one that torch itself refuses."""
    arguments = ([sample.input, *sample.args], sample.kwargs)
    if not any(isinstance(x, torch.Tensor) and x.is_complex() for x in tree_leaves(arguments)):
        return False
    try:
        expected = _outputs(function, sample, arguments)
    except (RuntimeError, NotImplementedError):
        return False
    copies = tree_map(_copy, arguments)
    with mode:
        outputs = _outputs(function, sample, copies)
    assert len(outputs) == len(expected)
    for output, its_expected in zip(outputs, expected, strict=True):
        _assert_same(entry, output, its_expected)
    if any(isinstance(x, torch.Tensor) and x.requires_grad for x in expected):
        gradients = _gradients(expected, arguments)
        with mode:
            pairs = zip(_gradients(outputs, copies), gradients, strict=True)
        for gradient, its_expected in pairs:
            _assert_same_gradients(entry, gradient, its_expected)
    return True


def _outputs(function, sample, arguments):
    """What the operator returns, as far as the sample says it is defined: no phases of vectors."""
    args, kwargs = arguments
    torch.manual_seed(1)
    return tree_leaves(sample.output_process_fn_grad(function(*args, **kwargs)))


def _copy(x):
    """A tensor with the same layout in memory, ComplexTensor for complex; the rest as it is."""
    if not isinstance(x, torch.Tensor):
        return x
    with torch.no_grad():
        x_resolved = x.resolve_conj().resolve_neg()
        size = x_resolved.untyped_storage().nbytes() // x.element_size()
        memory = x_resolved.as_strided((size,), (1,), 0)
        parts = (memory.real, memory.imag) if x.is_complex() else (memory,)
        layout = x_resolved.size(), x_resolved.stride(), x_resolved.storage_offset()
        parts = [part.clone(memory_format=torch.contiguous_format) for part in parts]
        parts = [part.as_strided(*layout) for part in parts]
    copied = of_parts(*parts) if x.is_complex() else parts[0]
    return copied.requires_grad_(x.requires_grad)


def _gradients(outputs, arguments):
    """Of all inputs that have one, for cotangents drawn by chance."""
    generator = torch.Generator().manual_seed(0)
    outputs = [x for x in outputs if isinstance(x, torch.Tensor) and x.requires_grad]
    inputs = [x for x in tree_leaves(arguments) if isinstance(x, torch.Tensor) and x.requires_grad]
    cotangents = []
    for x in outputs:
        real, imag = (torch.randn(x.shape, generator=generator) for _ in range(2))
        if isinstance(x, ComplexTensor):
            cotangents.append(ComplexTensor(real, imag))
        else:
            cotangents.append(torch.complex(real, imag) if x.is_complex() else real.to(x.dtype))
    return torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)


def _assert_same(entry, output, expected):
    """Compares values in relation to 1 at least, the size of the arguments, because some cancel."""
    if entry.name in RANDOM and isinstance(expected, torch.Tensor):
        assert isinstance(output, ComplexTensor) == expected.is_complex()
        assert output.dtype == expected.dtype and output.shape == expected.shape
        return
    is_rounded = isinstance(expected, torch.Tensor) and (
        expected.is_complex() or expected.is_floating_point()
    )
    scale = expected.detach().abs().clamp(min=1) if is_rounded else None
    assert_same(output, expected, STEPS.get(entry.name, 400), scale=scale)


def _assert_same_gradients(entry, gradient, expected):
    """No gradient is the same as one of zeros."""
    if gradient is not None and expected is not None:
        _assert_same(entry, gradient, expected)
    for present, absent in ((gradient, expected), (expected, gradient)):
        if absent is None and present is not None:
            assert not present.abs().any()


def passes(entry):
    """Whether there are samples and all of them pass."""
    return _checked(entry)[0] > 0


def _checked(entry):
    try:
        return check(entry)
    except Exception:
        return 0, set()


def names_in_table():
    """The operators that the device computes for all samples, as the page has them."""
    return _names_between(START, END)


def names_on_host():
    """The operators that the host computes for a sample at least, as the page has them."""
    return _names_between(START_ON_HOST, END_ON_HOST)


def _names_between(start, end):
    table = PAGE.read_text().partition(start)[2].partition(end)[0]
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def _row(name, entry):
    return f"| `{name}` | {'yes' if has_derivative(entry) else 'none'} |"


def write():
    page = PAGE.read_text()
    checked = {name: _checked(entry) for name, entry in sorted(entries().items())}
    passing = {name: of_host for name, (count, of_host) in checked.items() if count}
    for start, end, is_on_host in ((START, END, False), (START_ON_HOST, END_ON_HOST, True)):
        names = (name for name, of_host in passing.items() if bool(of_host) == is_on_host)
        rows = [_row(name, entries()[name]) for name in names]
        table = "\n".join(["| operator | derivative |", "|---|---|", *rows])
        head, _, rest = page.partition(start)
        page = f"{head}{start}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(page)
    print(f"{len(passing)} operators of {len(entries())}")


if __name__ == "__main__":
    write()

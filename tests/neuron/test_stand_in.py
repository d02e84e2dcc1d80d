"""The stand-in is as strict as the real packages: tests of the tests."""

import pytest
import torch

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from tests.tolerances import near, sums
from trnfft.ops.transforms import _c2c

from .stand_in import compile_backend, nki_hop
from .stand_in.device import stores_complex


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


LACKED = [torch.complex128, torch.float64, *([] if stores_complex() else [torch.complex64])]


@pytest.mark.parametrize("dtype", LACKED, ids=str)
def test_it_has_no_storage_for_what_a_neuron_core_lacks(dtype):
    with pytest.raises(TypeError, match="no storage"):
        torch.empty(3, dtype=dtype, device="neuron")
    with pytest.raises(TypeError, match="no storage"):
        torch.ones(3, dtype=dtype).to("neuron")


@pytest.mark.skipif(not stores_complex(), reason="the device stores none")
def test_it_stores_complex_numbers_and_decomposes_them_in_graphs():
    z = torch.randn(3, dtype=torch.complex64)
    device = z.to("neuron")
    near((device * device.conj()).cpu(), z * z.conj(), sums(2))
    compiled = torch.compile(lambda z: z * z + 1, backend="neuron", fullgraph=True)
    near(compiled(device).cpu(), z * z + 1, sums(4))
    assert {"aten::mul.Tensor", "aten::view_as_real", "aten::complex"} <= {
        node.target.name()
        for graph in compile_backend.GRAPHS
        for node in graph.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    }
    with pytest.raises(RuntimeError, match="_fft_c2c"):
        torch.compile(torch.fft.fft, backend="neuron", fullgraph=True)(device)
    with pytest.raises(RuntimeError, match="_fft_r2c has torch.complex64"):
        torch.compile(torch.fft.rfft, backend="neuron", fullgraph=True)(device.real.contiguous())


def test_it_counts_what_crosses_the_bus(counted):
    with counted() as counts:
        x = torch.ones(3, 4).to("neuron")
        (x + 1).sum().item()
        x.cpu()
    assert (counts.to_device, counts.to_device_bytes) == (1, 48)
    assert (counts.to_host, counts.to_host_bytes) == (2, 52)
    assert counts.fallbacks["aten::add"] == 1


def refused(function, *tensors):
    with pytest.raises(Exception, match="neither of ATen nor made by nki_op|has torch") as caught:
        torch.compile(function, backend="neuron", fullgraph=True)(*tensors)
    chain = [caught.value, caught.value.__cause__, getattr(caught.value, "inner_exception", None)]
    return any(isinstance(error, compile_backend.Refused) for error in chain)


def test_its_compiler_refuses_operators_of_torch_library():
    x = torch.ones(2, 8, device="neuron")
    assert refused(lambda a, b: _c2c(a, b, False, 1.0)[0], x, x)


def test_its_compiler_takes_what_nki_op_made(launches):
    @nki_hop.nki_op("trnfft_tests::doubled", mutates_args={})
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    f = torch.compile(lambda x: doubled(x) + 1, backend="neuron", fullgraph=True)
    assert torch.equal(f(torch.ones(3, device="neuron")).cpu(), torch.full((3,), 3.0))


@nki.jit
def stationary_of_two_dimensions(x):
    y = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((16, 8, 8), dtype=nl.float32, buffer=nl.sbuf)
    product = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.nc_matmul(dst=product, stationary=tile[:, 0:4, 0:4], moving=tile[:, 0:2, :])
    nisa.tensor_copy(dst=result, src=product)
    nisa.dma_copy(dst=y, src=result)
    return y


def test_kernels_run_strictly():
    """What a device may refuse is an error here, not a warning."""
    x = torch.ones(16, 8, 8, device="neuron")
    with pytest.raises(nki_sim.NkiValidationError, match="stationary"):
        nki_hop.wrap_nki(stationary_of_two_dimensions)[(2,)](x)

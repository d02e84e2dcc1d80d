"""Fast Fourier transforms for AWS Trainium, with the signatures of torch.fft.

Complex numbers are pairs of real tensors here (`ComplexTensor`), because a NeuronCore has no
complex dtype. The same code runs on a CPU or GPU, where `to_complex()` gives torch's own dtype.
"""

from importlib.metadata import version

from trnfft.complex_tensor import ComplexTensor
from trnfft.config import backend, get_backend, set_backend
from trnfft.transforms import fft, ifft

__version__ = version("trnfft")

__all__ = [
    "ComplexTensor",
    "__version__",
    "backend",
    "fft",
    "get_backend",
    "ifft",
    "set_backend",
]

"""Fast Fourier transforms for AWS Trainium, with the signatures of torch.fft.

A NeuronCore computes on real numbers. On a NeuronCore, a complex tensor is therefore a
`ComplexTensor`, which is a pair of real tensors. The same code runs on a CPU or a GPU, where native
tensors give native complex tensors, as in torch.fft.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from trnfft.base.config import (
    backend,
    get_backend,
    get_complex_storage,
    get_precision,
    precision,
    set_backend,
    set_complex_storage,
    set_precision,
)
from trnfft.base.namesake import refuse_namesake
from trnfft.complex import functions as _complex_functions  # noqa: F401
from trnfft.complex.kinds import as_complex_tensor, as_native
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions.bloom import BloomFilter, bloom
from trnfft.functions.chirp_z import czt, zoom_fft
from trnfft.functions.convolve import convolve, oaconvolve
from trnfft.functions.cosine import dct, dctn, dst, dstn, idct, idctn, idst, idstn
from trnfft.functions.fft import (
    fft,
    fft2,
    fftn,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)
from trnfft.functions.fft_plan import FftPlan, plan_fft
from trnfft.functions.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from trnfft.functions.hankel import fht, fhtoffset, ifht
from trnfft.functions.packed_spectrum import pack_spectrum, unpack_spectrum
from trnfft.functions.stft import istft, stft
from trnfft.ops import many_devices as _many_devices
from trnfft.patching import checkpoints as _checkpoints
from trnfft.patching.patch import patch_torch

if TYPE_CHECKING:
    from trnfft import distributed, nn
    from trnfft.functions import point_spread_functions
    from trnfft.model_check.layer_plan import plan_layer
    from trnfft.patching import scipy_backend
    from trnfft.planner import order
    from trnfft.planner.lengths import next_fast_len
    from trnfft.planner.planner import plan
    from trnfft.planner.wisdom_files import export_wisdom, forget_wisdom, import_wisdom
    from trnfft.planner.workspace import fft_workspace_bytes

refuse_namesake()
_checkpoints.keep_settings()
__version__ = version("trnfft-nki")

__all__ = [
    "BloomFilter",
    "ComplexTensor",
    "FftPlan",
    "__version__",
    "as_complex_tensor",
    "as_native",
    "backend",
    "bloom",
    "convolve",
    "czt",
    "dct",
    "dctn",
    "distributed",
    "dst",
    "dstn",
    "export_wisdom",
    "fft",
    "fft2",
    "fft_workspace_bytes",
    "fftfreq",
    "fftn",
    "fftshift",
    "fht",
    "fhtoffset",
    "forget_wisdom",
    "get_backend",
    "get_complex_storage",
    "get_precision",
    "hfft",
    "hfft2",
    "hfftn",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ifht",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "import_wisdom",
    "istft",
    "next_fast_len",
    "nn",
    "oaconvolve",
    "order",
    "pack_spectrum",
    "patch_torch",
    "plan",
    "plan_fft",
    "plan_layer",
    "point_spread_functions",
    "precision",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
    "scipy_backend",
    "set_backend",
    "set_complex_storage",
    "set_precision",
    "stft",
    "unpack_spectrum",
    "zoom_fft",
]


def _load_distributed() -> None:
    from trnfft import distributed  # noqa: F401


def _load_distributed_in_graph() -> None:
    from trnfft.distributed.run import in_graph  # noqa: F401


_many_devices.LOAD.update({False: _load_distributed, True: _load_distributed_in_graph})

_PLANNER = {
    "plan": "planner",
    "next_fast_len": "lengths",
    "fft_workspace_bytes": "workspace",
    "export_wisdom": "wisdom_files",
    "import_wisdom": "wisdom_files",
    "forget_wisdom": "wisdom_files",
}
_OPT_EINSUM = ("einsum", "tensordot", "transpose")  # which asks for them by these names


def __getattr__(name: str) -> Any:
    # The planner loads the kernels and their simulator: only for those who ask for it.
    if name in _PLANNER:
        globals()[name] = getattr(import_module(f"trnfft.planner.{_PLANNER[name]}"), name)
        return globals()[name]
    if name == "plan_layer":
        return import_module("trnfft.model_check.layer_plan").plan_layer
    if name == "order":
        return import_module("trnfft.planner.order")
    if name == "point_spread_functions":
        return import_module("trnfft.functions.point_spread_functions")
    if name in ("distributed", "nn"):
        return import_module(f"trnfft.{name}")
    if name == "scipy_backend":
        return import_module("trnfft.patching.scipy_backend")
    if name in _OPT_EINSUM:
        return getattr(import_module("trnfft.patching.opt_einsum_backend"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

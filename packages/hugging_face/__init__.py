"""FNet's mixing of tokens as a kernel of the Hugging Face Hub: Fourier transforms of trnfft.

scripts/hugging_face_kernel.py puts this file and `layers` beside copies of the modules of trnfft
and nki_kernels that they import. The copies are modules of this package, and so are separate from
an installed trnfft.
"""

from importlib.util import find_spec

# The packages that the copies need beside torch and nki, as in trnfft's pyproject.toml. A kernel's
# metadata cannot name them, because the Hub allows only some packages there.
REQUIREMENTS = (
    "cachetools>=6,<7",
    "ml_dtypes<0.7",
    "msgspec>=0.22,<0.23",
    "numpy<2.5",
    "platformdirs<5",
)

_missing = [
    one for one in REQUIREMENTS if find_spec(one.partition("<")[0].partition(">")[0]) is None
]
if _missing:
    raise ImportError(
        f"the kernel trnfft-fnet needs packages that are not installed: pip install "
        f"{' '.join(map(repr, _missing))}"
    )

from . import layers  # noqa: E402  (layers imports these packages)

__all__ = ["layers"]

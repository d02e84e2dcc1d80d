"""FNet's mixing of tokens as a kernel of the Hugging Face Hub: Fourier transforms of trnfft.

scripts/hugging_face_kernel.py puts this file and `layers` beside copies of what they import of
trnfft and nki_kernels. The copies are modules of this package, so an installed trnfft is another.
"""

from importlib.util import find_spec

# What the copies need beside torch and nki, as in trnfft's pyproject.toml. The metadata of a kernel
# cannot name them: the Hub has a list of packages that it may depend on.
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

from . import layers  # noqa: E402  (it imports them)

__all__ = ["layers"]

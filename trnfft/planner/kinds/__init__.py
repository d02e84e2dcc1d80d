"""What one launch can compute: one record a kind, with all that the planner asks of it."""

from typing import TYPE_CHECKING, Any, TypeVar

from trnfft.planner.kinds.block_circulant import BlockCirculant
from trnfft.planner.kinds.convolution import Convolution
from trnfft.planner.kinds.frames import Frames, Power
from trnfft.planner.kinds.kind import Separate
from trnfft.planner.kinds.real_planes import RealPlanes
from trnfft.planner.kinds.spectral_layer import SpectralGradients, SpectralLayer
from trnfft.planner.kinds.transform import C2C, C2R, R2C, Part, Transform

__all__ = [
    "C2C",
    "C2R",
    "R2C",
    "BlockCirculant",
    "Convolution",
    "Frames",
    "K",
    "Kind",
    "Part",
    "Power",
    "RealPlanes",
    "Separate",
    "SpectralGradients",
    "SpectralLayer",
    "Transform",
]

# A union, so that files of plans are checked against the records themselves: see schema.py.
Kind = (
    Transform
    | Convolution
    | BlockCirculant
    | SpectralLayer
    | SpectralGradients
    | Frames
    | RealPlanes
)

# The kind of a problem, a plan or a recipe; of any kind where none is named, as type checkers know.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    K = TypeVarWithDefault("K", bound=Kind, default=Any)
else:
    K = TypeVar("K", bound=Kind)

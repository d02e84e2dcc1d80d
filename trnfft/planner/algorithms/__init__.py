"""The registry of the algorithms that the planner knows; each kernel has a file.

Whatever lists algorithms or kernels, in tests, pages and programs, is made from here.

An algorithm that consists of others receives them here as arguments, and looks nothing up.
"""

from __future__ import annotations

from trnfft.planner.algorithms.algorithm import Algorithm
from trnfft.planner.algorithms.axes import Axes
from trnfft.planner.algorithms.block_circulant import BlockCirculant
from trnfft.planner.algorithms.bluestein import Bluestein
from trnfft.planner.algorithms.butterfly import Butterfly
from trnfft.planner.algorithms.convolution import RowConvolution
from trnfft.planner.algorithms.dft_gemm import DftGemm
from trnfft.planner.algorithms.dft_gemm_axes import DftGemmAxes
from trnfft.planner.algorithms.folded_dft import FoldedDft
from trnfft.planner.algorithms.four_step import FourStep
from trnfft.planner.algorithms.four_step_axes import FourStepAxes
from trnfft.planner.algorithms.frames import Frames
from trnfft.planner.algorithms.image_convolution import ImageConvolution
from trnfft.planner.algorithms.long_bluestein import LongBluestein, SplitBluestein
from trnfft.planner.algorithms.real_dft_gemm import RealDftGemm
from trnfft.planner.algorithms.real_four_step import RealFourStep
from trnfft.planner.algorithms.real_planes import RealPlanes
from trnfft.planner.algorithms.real_stockham import RealStockham
from trnfft.planner.algorithms.resident_planes import ResidentPlanes
from trnfft.planner.algorithms.resident_volumes import ResidentVolumes
from trnfft.planner.algorithms.spectral_convolution import SpectralConvolution
from trnfft.planner.algorithms.split_four_step import SplitFourStep
from trnfft.planner.algorithms.stockham import Stockham
from trnfft.planner.algorithms.stockham_axes import StockhamAxes
from trnfft.planner.algorithms.strided_stockham import StridedStockham
from trnfft.planner.kinds import C2C, C2R, R2C
from trnfft.planner.kinds.block_circulant import CIRCULANT, CIRCULANT_GRADIENTS
from trnfft.planner.kinds.frames import FRAME_BANDS, FRAME_POWERS, FRAME_SPECTRA
from trnfft.planner.kinds.spectral_layer import SPECTRAL, SPECTRAL_GRADIENTS, SPECTRAL_KEPT

DFT_GEMM = DftGemm()
DFT_GEMM_REFINED, DFT_GEMM_BF16 = DftGemm("bfloat16", refined=True), DftGemm("bfloat16")
STOCKHAM = Stockham()
FOUR_STEP = FourStep()
SPLIT_FOUR_STEP = SplitFourStep()
REAL_DFT_GEMM, INVERSE_REAL_DFT_GEMM = RealDftGemm(R2C), RealDftGemm(C2R)
REAL_STOCKHAM, INVERSE_REAL_STOCKHAM = RealStockham(R2C), RealStockham(C2R)
BLUESTEIN = Bluestein(STOCKHAM)
LONG_BLUESTEIN = LongBluestein(FOUR_STEP)
SPLIT_BLUESTEIN = SplitBluestein(SPLIT_FOUR_STEP)
ROW_CONVOLUTION = RowConvolution(REAL_STOCKHAM)
STRIDED_STOCKHAM = StridedStockham()
_MODES = (("float32", False), ("bfloat16", True), ("bfloat16", False))  # of products
_FORWARD_ROWS = (REAL_DFT_GEMM, REAL_STOCKHAM)
_SPECTRAL = (SPECTRAL, SPECTRAL_KEPT, SPECTRAL_GRADIENTS)
_FRAMES = (FRAME_SPECTRA, FRAME_POWERS, FRAME_BANDS)
_INVERSE_ROWS = (INVERSE_REAL_DFT_GEMM, INVERSE_REAL_STOCKHAM)

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        DFT_GEMM,
        DFT_GEMM_REFINED,
        DFT_GEMM_BF16,
        STOCKHAM,
        Stockham("bfloat16", refined=True),
        Stockham("bfloat16"),
        FOUR_STEP,
        SPLIT_FOUR_STEP,
        FoldedDft(),
        Butterfly(False),
        Butterfly(True),
        BLUESTEIN,
        LONG_BLUESTEIN,
        SPLIT_BLUESTEIN,
        *_FORWARD_ROWS,
        *_INVERSE_ROWS,
        RealFourStep(R2C),
        RealFourStep(C2R),
        ROW_CONVOLUTION,
        ImageConvolution(_FORWARD_ROWS, STRIDED_STOCKHAM, _INVERSE_ROWS),
        BlockCirculant(CIRCULANT),
        BlockCirculant(CIRCULANT_GRADIENTS),
        *(SpectralConvolution(kind, "bfloat16") for kind in _SPECTRAL),
        *map(SpectralConvolution, _SPECTRAL),
        *(Frames(kind, REAL_STOCKHAM) for kind in _FRAMES),
        RealPlanes(),
        *map(FourStepAxes, (C2C, R2C, C2R)),
        *(StockhamAxes(kind, *mode) for mode in _MODES for kind in (C2C, R2C, C2R)),
        ResidentPlanes(),
        ResidentVolumes(C2C),
        ResidentVolumes(R2C),
        *map(DftGemmAxes, (DFT_GEMM, DFT_GEMM_REFINED, DFT_GEMM_BF16)),
        *map(DftGemmAxes, (REAL_DFT_GEMM, INVERSE_REAL_DFT_GEMM)),
        Axes(C2C, (DFT_GEMM, STOCKHAM), STRIDED_STOCKHAM),
        Axes(R2C, _FORWARD_ROWS, STRIDED_STOCKHAM),
        Axes(C2R, _INVERSE_ROWS, STRIDED_STOCKHAM),
    )
}

# Algorithms that serve only as passes of others.
PASSES: dict[str, Algorithm] = {STRIDED_STOCKHAM.name: STRIDED_STOCKHAM}

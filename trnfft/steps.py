"""Steps before and after a transform, for `trnfft.plan_fft`: see `trnfft.functions.steps`."""

from trnfft.functions.steps import Bands, Log, Magnitude, Multiply, Pad, Power, Trim

__all__ = ["Bands", "Log", "Magnitude", "Multiply", "Pad", "Power", "Trim"]

"""Which operations of a model run on Trainium, from one run of the model without a NeuronCore.

runner.py      runs the model, forward and backward
watch.py       what torch calls meanwhile: refusals, native complex tensors, operators
stand_in.py    in place of the backends: plans and counts launches, computes by torch.fft
sites.py       the line of the program that a call comes from
findings.py    the report
"""

from trnfft.model_check.findings import Finding, Launches, Report
from trnfft.model_check.runner import NotAllowed, check_model
from trnfft.model_check.sites import Site

__all__ = ["Finding", "Launches", "NotAllowed", "Report", "Site", "check_model"]

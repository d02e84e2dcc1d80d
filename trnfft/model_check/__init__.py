"""Finds the operations of a model that fail on Trainium, by one run without a NeuronCore.

The files of this package:

    runner.py      runs the model, forward and backward
    watch.py       sees all calls of torch: refusals, native complex tensors, operators
    stand_in.py    replaces the backends: plans and counts launches, computes by torch.fft
    sites.py       finds the line of the program that a call comes from
    findings.py    the report
"""

from trnfft.model_check.findings import Finding, Launches, Report
from trnfft.model_check.runner import NotAllowed, check_model
from trnfft.model_check.sites import Site

__all__ = ["Finding", "Launches", "NotAllowed", "Report", "Site", "check_model"]

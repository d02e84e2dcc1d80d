"""Finds the operations of a model that fail on Trainium, by one run without a NeuronCore.

The files of this package:

    runner.py               runs the model, forward and backward
    watch.py                sees all calls of torch: refusals, native complex tensors, operators
    replaced_backends.py    plans and counts launches, and computes by references of operators
    sites.py                finds the line of the program that a call comes from
    findings.py             the report
    layer_plan.py           `trnfft.plan_layer`, a check on the device meta
"""

from trnfft.model_check.findings import Finding, Launches, Report
from trnfft.model_check.runner import NotAllowed, check_model
from trnfft.model_check.sites import Site

__all__ = ["Finding", "Launches", "NotAllowed", "Report", "Site", "check_model"]

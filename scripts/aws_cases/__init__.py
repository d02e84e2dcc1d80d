"""Cases of scripts/aws_kernels.py: launches of AWS's public kernels, each with a reference.

Shapes are small ones of those that the kernels' own tests use; the references are ours, in NumPy.
"""

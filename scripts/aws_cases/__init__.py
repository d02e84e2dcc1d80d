"""Cases of scripts/aws_kernels.py: launches of AWS's public kernels, each with a reference.

The shapes are small ones among those that the kernels' own tests use. The references are written in
NumPy for this project.
"""

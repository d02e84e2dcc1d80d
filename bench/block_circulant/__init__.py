"""The costs of block circulant layers: `python -m bench.block_circulant` prints them.

`times` models their times on the chip, `steps` counts the transforms and the memory of a training
step, and `training` trains a network. `naive_flow` and `dense_product` are the two computations
with which the layers are compared.
"""

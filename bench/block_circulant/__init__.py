"""What block circulant layers take: `python -m bench.block_circulant`.

`times` models them on the chip, `steps` counts what a training step does, `training` lets a network
learn. `naive_flow` and `dense_product` are what they are compared with.
"""

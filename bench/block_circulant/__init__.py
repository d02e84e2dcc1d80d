"""The modelled times of block circulant layers: python -m bench.block_circulant

`naive_flow` and `dense_product` are the two computations with which the layers are compared.
"""

"""Inverses and solutions of systems, by real matrices of twice the size.

    A + iB  as  [[A, -B], [B, A]]

maps sums to sums and products to products, so that the inverse of one is the inverse of the other.
"""

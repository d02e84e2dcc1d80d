"""Operators, one in each file, with their shapes, derivatives and choice of backend."""

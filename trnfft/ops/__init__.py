"""The operators that everything is made of, one a file: shapes, derivatives, choice of backend."""

"""How programs that were written for others reach the functions of this library."""

"""The demo: the command `trnfft spectrum`, and what reads the recordings and pictures of examples.

The package calls trnfft as any program would, and trnfft imports nothing of the package. The
command `trnfft` finds the command by its name. The extra `demo` installs the libraries with which
this package and the examples read and draw.
"""

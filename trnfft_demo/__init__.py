"""The demo: the commands `trnfft spectrum` and `trnfft bloom`, for recordings and pictures.

The package calls trnfft as any program would, and trnfft imports nothing of the package. The
command `trnfft` finds these two commands by their names. The extra `demo` installs the libraries
with which they read and draw.
"""

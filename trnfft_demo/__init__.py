"""The demo: the commands `trnfft spectrum` and `trnfft bloom`, for recordings and pictures.

It calls trnfft as any program would, and trnfft imports nothing of it. The command `trnfft` finds
its commands by their names. The extra `demo` installs what they read and draw with.
"""

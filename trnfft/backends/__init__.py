"""Ways to run a transform, one a file. `trnfft.ops` chooses among them."""

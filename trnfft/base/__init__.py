"""What all other folders of `trnfft` rest on."""

"""Operations on the spectra of real data, in one launch with the transforms around them."""

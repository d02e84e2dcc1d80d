"""What answers ``import nki``: a finder, and the simulator's modules under their names there."""

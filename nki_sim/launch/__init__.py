"""A launch of a kernel: its memory, its instructions and its programs."""

"""Rules on what instructions read and write: unwritten memory, hazards, records of chips."""

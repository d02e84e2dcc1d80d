"""Instructions: their work and price, notes about them, and what they ask of a launch."""

"""Instructions: their work and price, notes about them for people, and what they ask of a launch."""

"""Instructions: their work and its price, and notes about them for people."""

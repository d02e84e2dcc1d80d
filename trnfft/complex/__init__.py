"""Complex numbers as pairs of real tensors, and torch's functions for them."""

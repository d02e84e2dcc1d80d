"""Complex numbers as pairs of real tensors, and what torch's functions do with them."""

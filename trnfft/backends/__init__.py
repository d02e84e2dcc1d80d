"""What computes transforms. All backends have the interface of `backend.Backend`."""

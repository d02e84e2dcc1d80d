"""Backends compute transforms. All of them have the interface of `backend.Backend`."""

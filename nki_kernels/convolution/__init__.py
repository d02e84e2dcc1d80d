"""Convolutions, of rows, images and blocks of circulant matrices."""

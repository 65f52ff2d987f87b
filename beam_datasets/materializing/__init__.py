"""Materializing and appending: write published records as a new dataset, or as the next version, without decoding."""

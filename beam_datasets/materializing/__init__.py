"""Materializing and appending: published records become a new dataset, or the next version, without decoding."""

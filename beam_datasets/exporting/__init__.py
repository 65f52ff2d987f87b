"""Exports: slices of published datasets as files of other formats."""

"""Builders of datasets from files, without code: rows of tables, records, and folders of images and sounds."""

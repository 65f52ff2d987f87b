"""Elements: transforms of records into examples and batches, and where they run."""

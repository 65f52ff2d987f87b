"""The setting for progress bars, on terminals and elsewhere."""

is_shown = True
"""`beam-datasets --quiet` sets it to False."""

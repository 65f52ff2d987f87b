"""Whether progress is shown, on terminals and elsewhere."""

is_shown = True
"""`beam-datasets --quiet` sets it to False."""

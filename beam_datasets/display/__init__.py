"""Examples, values and datasets for people: as text of a terminal, and as tables and pictures of a notebook."""

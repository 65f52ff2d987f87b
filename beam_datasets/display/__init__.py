"""Examples, values and datasets for people: as text for terminals, and as tables and pictures for notebooks."""

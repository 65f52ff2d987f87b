"""Sources of a builder: the units that are read in parallel, and what is found out about them before or after a run."""

"""Sources of a builder: their units, which are read in parallel, estimates of sizes, and the search for keys."""

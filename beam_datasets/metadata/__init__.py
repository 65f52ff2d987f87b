"""The description of a version: names, splits, shards, keys and sources, and the JSON files that store it."""

"""Shuffling by sort key: blocks of sorted records, histograms of keys, the plan of shards, routing and merging.

Nothing here imports Beam or publishes; files are written only for spilled blocks.
"""

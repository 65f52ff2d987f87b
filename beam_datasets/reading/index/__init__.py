"""Positions: orders, and operations that map positions to positions."""

"""Executors that need no engine."""

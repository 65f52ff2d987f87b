"""The version of the package, in a module of its own, from which the others import it."""

__version__ = "1.0.0"

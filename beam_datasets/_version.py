"""The version of the package, in a module that all others can import."""

__version__ = "1.0.0"

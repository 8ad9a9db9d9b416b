"""Measurements: of speed, of memory, and of the theory."""

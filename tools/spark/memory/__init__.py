"""Measures the memory of a Python worker that reads more than fits into it."""

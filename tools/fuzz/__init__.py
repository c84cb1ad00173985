"""Mutated input for both kernels: `make fuzz`."""

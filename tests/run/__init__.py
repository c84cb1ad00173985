"""The organization of a test run: which worker runs which tests, the seed, and the report."""

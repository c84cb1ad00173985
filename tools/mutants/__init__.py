"""`make mutants`: break the code in known ways, one at a time, and expect a test to fail each time."""

"""Kills driver, executors, Python workers and broker under a job that runs, and counts what is left."""

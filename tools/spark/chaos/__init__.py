"""Kills the driver, executors, Python workers and broker of a running job, and counts what is stored."""

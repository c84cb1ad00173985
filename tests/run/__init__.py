"""How a run of the tests is organised: which tests run where, with which seed, and what it reports."""

"""One seed for all random numbers in a test run, so that a run can be repeated."""

import os
import random

__all__ = ["VARIABLE", "dice", "seed"]

VARIABLE = "PYKLIENT_TEST_SEED"
"""The variable in which option ``--seed`` passes the seed to the workers and programs that the tests
start."""


def seed() -> int:
    """Return the seed of this run: ``--seed``, or a random seed. The header of the run shows it."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(random.SystemRandom().randrange(2**32))
    return int(os.environ[VARIABLE])


def dice(*salt: object) -> random.Random:
    """Return random numbers that depend only on the seed of the run and *salt*, not on what has run
    before."""
    return random.Random("/".join(map(str, (seed(), *salt))))

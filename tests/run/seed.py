"""One seed for all that is random in a run of the tests, so that a run can be repeated."""

import os
import random

__all__ = ["VARIABLE", "dice", "seed"]

VARIABLE = "PYKLIENT_TEST_SEED"
"""Where the option ``--seed`` leaves the seed, for the workers and programs that the tests start."""


def seed() -> int:
    """The seed of this run: ``--seed``, or one that nobody chose. The header of the run shows it."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(random.SystemRandom().randrange(2**32))
    return int(os.environ[VARIABLE])


def dice(*salt: object) -> random.Random:
    """Random numbers that follow from the seed of the run and *salt*, whatever has run before."""
    return random.Random("/".join(map(str, (seed(), *salt))))

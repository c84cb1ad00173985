"""What happens when records are gone before they were read: option ``failOnDataLoss``."""

import logging
from dataclasses import dataclass

from pyklient.errors import DataLossError

__all__ = ["DataLoss"]

log = logging.getLogger("pyklient.spark")


@dataclass(frozen=True)
class DataLoss:
    """Fails, or warns."""

    fails: bool

    def report(self, what: str) -> None:
        """Say *what* is lost. Raises DataLossError, unless it is to be gone on without."""
        if self.fails:
            raise DataLossError(
                f"{what}. Set failOnDataLoss to false to go on with what is there (the topic may keep "
                "records for a shorter time than the query takes to get to them)"
            )
        log.warning("%s; going on with what is there", what)

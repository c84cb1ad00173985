"""The directory of the repository, for programs that read or write files in it."""

from pathlib import Path
from typing import Final

__all__ = ["ROOT"]

ROOT: Final = Path(__file__).parents[1]

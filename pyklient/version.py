"""The version of pyklient. The metadata of the package is written from it.

``importlib.metadata`` would take as long as the import of a whole client, and fails if the package was not
installed but sent to Spark's workers as an archive.
"""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"

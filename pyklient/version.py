"""The version of pyklient. The build copies it into the metadata of the package.

The version is written here because ``importlib.metadata`` takes as long as the import of a whole client. It
also fails if the package was not installed, but sent to Spark's workers as an archive.
"""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"

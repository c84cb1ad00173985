"""Which pyklient this is: here, and from here in the package's metadata.

To ask ``importlib.metadata`` takes as long as importing all the rest of a client, and has no answer where the
package was not installed, but shipped to Spark's workers as an archive.
"""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"

"""A SPARK_HOME whose Python workers start fast.

Spark starts its Python workers with an archive of PySpark's sources on the path. Each worker compiles these
sources again, which takes more than half of its start, and Spark waits only ten seconds for a worker of a
query. Here, the installed and compiled modules are in the place of the archive.
"""

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tests.servers.maven import locked

__all__ = ["make_spark_home", "spark_home"]


def spark_home() -> Path:
    """Return the SPARK_HOME for the PySpark that this process imports. Make it first if necessary.

    Its path is always the same, because a recorded archive of Java classes is valid only for the path at
    which it was recorded.
    """
    home = Path(sys.prefix) / "spark" / version("pyspark")
    if not home.exists():
        home.parent.mkdir(exist_ok=True)
        with locked(home.parent / "lock"):
            if not home.exists():
                make_spark_home(home.with_name(f"{home.name}.unfinished")).rename(home)
    return home


def make_spark_home(directory: Path) -> Path:
    """Make *directory* a SPARK_HOME for the PySpark that this process imports, unless it is one already.

    Spark's own workers leave their files in it, and not in the installed package.
    """
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    modules = directory / "python" / "lib" / "pyspark.zip"
    modules.mkdir(parents=True, exist_ok=True)
    links = {modules / "pyspark": package}
    links |= {modules.parent / each.name: each for each in (package / "python" / "lib").glob("py4j-*.zip")}
    links |= {
        directory / each.name: each for each in package.iterdir() if each.name not in ("python", "work")
    }
    for link, target in links.items():
        if not link.is_symlink():
            link.symlink_to(target)
    return directory

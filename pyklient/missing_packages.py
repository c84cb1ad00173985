"""What is said where an extra of the installation is missing."""

__all__ = ["without_pyarrow", "without_pyspark"]


def without_pyarrow() -> ModuleNotFoundError:
    """The error for a call that needs Arrow, in an environment without it."""
    return ModuleNotFoundError(
        "pyarrow is not installed; install the extra `arrow`: pip install '.[arrow]' in the clone",
        name="pyarrow",
    )


def without_pyspark() -> ModuleNotFoundError:
    """The error for ``import pyklient.spark`` in an environment without a PySpark that has data sources."""
    return ModuleNotFoundError(
        "PySpark 4.0 or later is not installed; install the extra `spark`: "
        "pip install '.[spark]' in the clone",
        name="pyspark",
    )

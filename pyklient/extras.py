"""What is said where an extra of the installation is missing."""

__all__ = ["without_pyarrow"]


def without_pyarrow() -> ModuleNotFoundError:
    """The error for a call that needs Arrow, in an environment without it."""
    return ModuleNotFoundError(
        "pyarrow is not installed; install the extra `arrow`: pip install '.[arrow]' in the clone",
        name="pyarrow",
    )

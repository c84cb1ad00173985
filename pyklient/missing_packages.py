"""The errors for optional packages that are not installed."""

__all__ = ["without_opentelemetry", "without_psycopg", "without_pyarrow", "without_pyspark"]


def without_opentelemetry() -> ModuleNotFoundError:
    """Return the error for ``import pyklient.telemetry`` without OpenTelemetry's API."""
    return ModuleNotFoundError(
        "OpenTelemetry's API is not installed; install the extra `telemetry`: "
        "pip install '.[telemetry]' in the clone of pyklient",
        name="opentelemetry",
    )


def without_psycopg() -> ModuleNotFoundError:
    """Return the error for an offset store in PostgreSQL if psycopg is not installed."""
    return ModuleNotFoundError(
        "psycopg is not installed; install the extra `postgres`: "
        "pip install '.[postgres]' in the clone of pyklient",
        name="psycopg",
    )


def without_pyarrow() -> ModuleNotFoundError:
    """Return the error for a call that needs Arrow if pyarrow is not installed."""
    return ModuleNotFoundError(
        "pyarrow is not installed; install the extra `arrow`: "
        "pip install '.[arrow]' in the clone of pyklient",
        name="pyarrow",
    )


def without_pyspark() -> ModuleNotFoundError:
    """Return the error for ``import pyklient.spark`` if PySpark is missing or has no Python data sources."""
    return ModuleNotFoundError(
        "PySpark 4.0 or later is not installed; install the extra `spark`: "
        "pip install '.[spark]' in the clone of pyklient",
        name="pyspark",
    )

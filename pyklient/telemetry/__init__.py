"""OpenTelemetry for producers and consumers: their metrics, and traces through the headers of records.

It needs the extra ``telemetry``, which installs OpenTelemetry's API. Nothing else in pyklient imports this
package.
"""

from pyklient.missing_packages import without_opentelemetry

try:
    import opentelemetry.metrics
    import opentelemetry.trace  # noqa: F401
except ImportError as error:
    raise without_opentelemetry() from error

from pyklient.telemetry.telemetry import Telemetry

__all__ = ["Telemetry"]

"""Handles records that could not be copied: the mirror ends, or it drops them."""

import logging

from pyklient.counted import counted
from pyklient.errors import DeliveryError
from pyklient.log_events import log_fields
from pyklient.mirror.sent_records import FailedRecords

__all__ = ["FailedCopies"]

_log = logging.getLogger("pyklient.mirror")


class FailedCopies:
    """Decides what happens with records that could not be copied. If *abort* is true, the first one ends the
    mirror. Otherwise they are logged, counted and dropped."""

    def __init__(self, *, abort: bool) -> None:
        self.dropped_count = 0
        """The number of records that were dropped."""
        self._abort = abort

    def note(self, failed: FailedRecords) -> None:
        """If failed records end the mirror, raise the error that ends it. Otherwise count *failed* as
        dropped, and log the loss."""
        if self._abort:
            raise _abort_error(failed) from failed.error
        self.dropped_count += failed.record_count
        _log_dropped(failed)


def _log_dropped(failed: FailedRecords) -> None:
    _log.error(
        "%s of %s, from offset %d on, could not be mirrored and %s dropped: %s",
        counted(failed.record_count, "record"),
        failed.source,
        failed.offset,
        "is" if failed.record_count == 1 else "are",
        failed.error,
        extra=log_fields(
            "mirror_records_dropped",
            partition=str(failed.source),
            offset=failed.offset,
            records=failed.record_count,
            error=str(failed.error),
        ),
    )


def _abort_error(failed: FailedRecords) -> DeliveryError:
    return DeliveryError(
        f"mirroring ends, because the record at offset {failed.offset} of {failed.source} could not be sent: "
        f"{failed.error}; the mirror commits no later offset. Remove the cause and start the mirror "
        "again, or let it drop such records (abort_on_send_failure=False)"
    )

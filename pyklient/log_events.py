"""Makes the fields of log records that report a change of state. docs/logging.md lists them."""

__all__ = ["log_fields"]


def log_fields(name: str, **fields: object) -> dict[str, object]:
    """Return the argument ``extra`` of a call that logs: the name of the event, and its fields.

    A structured log gets them as attributes of the record: ``record.event``, ``record.broker`` and so on.
    """
    return {"event": name, **fields}

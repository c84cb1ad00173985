"""The two ways in which the broker fails a request: with an error response, or by closing the connection."""

from pyklient.error_codes import ErrorCode

__all__ = ["ApiError", "CloseConnection"]


class ApiError(Exception):
    """An error that the broker reports in a response: for the whole request, or for one topic or partition in
    it.

    The response always contains *code*. It contains *message* only if the response has a field for it.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class CloseConnection(Exception):
    """Raised by a handler to close the connection without a response.

    The text of the exception is the reason, which is logged.
    """

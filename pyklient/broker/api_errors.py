"""Why the broker says no: what is raised to answer with an error code, or to end the connection."""

from pyklient.error_codes import ErrorCode

__all__ = ["Hangup", "Refusal"]


class Refusal(Exception):
    """A request, or a part of it, is answered with *code*; the text goes along where there is room."""

    def __init__(self, code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


class Hangup(Exception):
    """The connection is closed without an answer; the text says why, for the log."""

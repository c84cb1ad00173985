"""``pyklient demo``: produce and consume real data, and count the messages."""

from pyklient.cli.demo.command import demo

__all__ = ["demo"]

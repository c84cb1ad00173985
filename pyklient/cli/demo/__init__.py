"""``pyklient demo``: send real data through a topic and a consumer group, and count the messages."""

from pyklient.cli.demo.command import demo

__all__ = ["demo"]

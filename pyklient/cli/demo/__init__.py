"""``pyklient demo``: the main job on real data, shown while it runs and counted at the end."""

from pyklient.cli.demo.command import demo

__all__ = ["demo"]

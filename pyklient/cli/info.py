"""``pyklient info``: what is installed, for bug reports and for "why is it slow"."""

import importlib.metadata
import platform

import click

from pyklient.cli.tables import print_json
from pyklient.protocol.records import kernel
from pyklient.version import VERSION

__all__ = ["info"]

_CODECS = {"gzip": None, "snappy": "python-snappy", "lz4": "lz4", "zstd": "zstandard"}
"""Codec → the distribution it comes from; None is the standard library."""


@click.command(short_help="Version, kernel in use, codecs.", epilog="Example: pyklient info --json")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def info(as_json: bool) -> None:
    """Version, kernel in use (and why not the compiled one), codecs."""
    facts = {
        "pyklient": VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "kernel": kernel.name,
    }
    if kernel.file:
        facts["file"] = kernel.file
    if kernel.not_compiled:
        facts["why"] = kernel.not_compiled
    codecs = {
        codec: f"{package} {importlib.metadata.version(package)}" if package else "standard library"
        for codec, package in _CODECS.items()
    }
    if as_json:
        print_json(facts | {"codecs": codecs})
    else:
        for name, fact in (facts | codecs).items():
            print(f"{name:10} {fact}")

"""Builds the compiled kernel, and marks it with what it was built from."""

import runpy

from setuptools import Extension
from setuptools.command.build_ext import build_ext

__all__ = ["BuildKernel"]


class BuildKernel(build_ext):
    """``build_ext``, which the kernel tells from kernels of other sources by its mark."""

    def build_extension(self, ext: Extension) -> None:
        """Build *ext* with the mark as a macro."""
        mark = runpy.run_path("pyklient/kernel/source_digest.py")["mark"]
        text = mark(self.distribution.get_version(), "pyklient/kernel")
        ext.define_macros.append(("PYKLIENT_KERNEL_MARK", f'"{text}"'))
        super().build_extension(ext)

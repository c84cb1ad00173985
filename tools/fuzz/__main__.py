"""Mutated input for the compiled kernel, under AddressSanitizer, compared with the Python kernel.

    python -m tools.fuzz --inputs 10000000

builds the extension with AddressSanitizer in a temporary folder (gcc or clang needed) and runs the inputs in
one process for each core. The exit status is 0 if both kernels agreed on all inputs and no memory was
accessed that should not be. ``--seed`` repeats a run.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.repository import ROOT


def build(folder: Path) -> None:
    """Install the package into *folder* with an extension that is compiled with AddressSanitizer."""
    source = folder / "source"
    source.mkdir()
    shutil.copytree(
        ROOT / "pyklient", source / "pyklient", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    )
    for name in ("README.md", "LICENSE", "kernel_build.py"):
        shutil.copy(ROOT / name, source)
    # keep symbols, so that a report names functions, and let a failed build be an error
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = project.replace('extra-link-args = ["-s"]\noptional = true', "")
    (source / "pyproject.toml").write_text(project, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder / "site", source],
        env=os.environ
        | {
            "CFLAGS": "-fsanitize=address -fno-omit-frame-pointer -g -O1",
            "LDFLAGS": "-fsanitize=address",
        },
        check=True,
    )


def start(folder: Path, seed: int, inputs: int) -> subprocess.Popen[bytes]:
    """Start one process for a part of the inputs."""
    library = subprocess.run(
        [os.environ.get("CC", "gcc"), "-print-file-name=libasan.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    return subprocess.Popen(
        [sys.executable, ROOT / "tools" / "fuzz" / "inputs.py", str(seed), str(inputs)],
        env=os.environ
        | {
            "LD_PRELOAD": library,
            "ASAN_OPTIONS": "detect_leaks=0:malloc_context_size=4:quarantine_size_mb=16",
            # the memory pools of Python's own allocator would hide accesses beyond the end of an object
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": str(folder / "site"),
            "PYKLIENT_KERNEL": "compiled",
        },
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--inputs", type=int, default=200_000, help="how many (default: 200,000)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: cores)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        build(folder)
        print(f"{chosen.inputs:,} inputs in {chosen.jobs} processes, --seed {chosen.seed}", flush=True)
        began = time.monotonic()
        shares = [(chosen.inputs + index) // chosen.jobs for index in range(chosen.jobs)]
        running = [start(folder, chosen.seed + index, share) for index, share in enumerate(shares)]
        failed = [process.wait() for process in running if process.wait()]
    if failed:
        print(
            f"something was found, processes ended with {failed}: see above; "
            f"repeat with --seed {chosen.seed} --jobs {chosen.jobs}"
        )
        return 1
    print(f"nothing found in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Processes that tests start, observed from outside."""

import subprocess
import sys

from tests.servers.process import Growth, resident

MIB = 1 << 20

HOLDS = """
import sys
for line in sys.stdin:
    held = bytearray(b"x") * (int(line) << 20)
    del held
    print("given back", flush=True)
"""


def test_growth_is_what_a_process_holds_at_most_from_now_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def hold(mebibytes: int) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{mebibytes}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "given back\n"

        hold(300)
        growth = Growth(process.pid)
        assert growth.peak < 20 * MIB, "what it held before does not count"
        hold(100)
        assert 90 * MIB < growth.peak < 140 * MIB, "what it has given back meanwhile does"
        assert resident(process.pid) < 100 * MIB
        process.stdin.close()

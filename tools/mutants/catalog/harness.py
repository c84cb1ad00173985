"""Mistakes in tests and tools that would let them pass whatever the code does."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "tests: Ctrl-C never comes while a producer sends",
        "tests/producer/test_interrupts.py",
        "                raise KeyboardInterrupt\n",
        "                pass\n",
        ("tests/producer/test_interrupts.py::test_a_producer_goes_on_after_ctrl_c_at_any_step",),
    ),
    Mutant(
        "tests: Ctrl-C never comes between two lines of a loop",
        "tests/consumer/stream/test_interrupts.py",
        '        self.left -= event == "line"\n        if self.left == 0:\n',
        '        self.left -= event == "line"\n        if False:\n',
        (
            "tests/consumer/stream/test_interrupts.py"
            "::test_a_loop_interrupted_at_any_step_can_be_gone_on_with_and_nothing_is_lost",
        ),
    ),
    Mutant(
        "tests: Ctrl-C never comes between two calls of a loop",
        "tests/consumer/stream/test_interrupts.py",
        "            self.left -= 1\n            if self.left == 0:\n",
        "            self.left -= 1\n            if False:\n",
        (
            "tests/consumer/stream/test_interrupts.py"
            "::test_a_wait_that_is_interrupted_anywhere_raises_that_and_can_be_gone_on_with",
        ),
    ),
    Mutant(
        "tests: memory that a process held before counts as its peak",
        "tests/servers/process.py",
        '            Path(f"/proc/{pid}/clear_refs").write_text("5")\n',
        "            pass\n",
        ("tests/servers/test_process.py",),
    ),
    Mutant(
        "tests: memory that a process has given back does not count",
        "tests/servers/process.py",
        "            return int(found[1]) * 1024 - self._before\n",
        "            pass\n",
        ("tests/servers/test_process.py",),
    ),
    Mutant(
        "tools: a kill counts where there was nobody to kill",
        "tools/spark/chaos/killer.py",
        "        if not pids:\n            return None\n",
        "        if not pids:\n            return victim\n",
        ("tests/spark/test_chaos.py::test_a_kill_counts_for_nothing_where_there_was_nobody",),
    ),
    Mutant(
        "tools: a kill of a driver that had ended counts",
        "tools/spark/chaos/killer.py",
        "return victim if killed else None",
        "return victim",
        ("tests/spark/test_chaos.py::test_a_kill_counts_for_nothing_where_there_was_nobody",),
    ),
    Mutant(
        "tools: a kill of a broker that was down counts",
        "tools/spark/chaos/killer.py",
        'return "broker" if was_there else None',
        'return "broker"',
        ("tests/spark/test_chaos.py::test_a_broker_that_was_killed_has_been_down",),
    ),
    Mutant(
        "tools: a stage of a chain reads records of transactions that are not committed",
        "tools/transactions/stage.py",
        '"isolation_level": "read_committed"',
        '"isolation_level": "read_uncommitted"',
        (
            "tests/faults/test_transactions.py"
            "::test_each_message_passes_a_chain_once_through_faults_of_the_reference_broker",
        ),
    ),
)

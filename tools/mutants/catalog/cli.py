"""Mistakes in ``pyklient/cli/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "cli: an empty value is written as null",
        "pyklient/cli/record_lines.py",
        "    if not isinstance(data, bytes):\n        return data\n",
        "    if not data or not isinstance(data, bytes):\n        return None\n",
        ("tests/cli/test_record_lines.py::test_a_record_survives_the_way_through_json",),
    ),
    Mutant(
        "cli: bytes that are not UTF-8 are shown as text",
        "pyklient/cli/record_lines.py",
        "        return data.decode()\n    except UnicodeDecodeError:",
        '        return data.decode(errors="replace")\n    except UnicodeDecodeError:',
        ("tests/cli/test_record_lines.py::test_a_record_survives_the_way_through_json",),
    ),
    Mutant(
        "cli: a header's value ends at its last equals sign",
        "pyklient/cli/record_lines.py",
        'name, equals, value = given.partition("=")',
        'name, equals, value = given.rpartition("=")',
        ("tests/cli/test_record_lines.py::test_a_header_on_the_line_is_name_and_value",),
    ),
    Mutant(
        "cli: the timestamp of a line is lost",
        "pyklient/cli/record_lines.py",
        'timestamp_ms=fields.get("timestamp_ms"),',
        "timestamp_ms=None,",
        ("tests/cli/test_record_lines.py::test_a_record_survives_the_way_through_json",),
    ),
    Mutant(
        "cli: the first line is line 0",
        "pyklient/cli/line_outcomes.py",
        "number = self.stored + len(self._unconfirmed) + 1",
        "number = self.stored + len(self._unconfirmed)",
        (
            "tests/cli/test_produce.py::test_lines_that_the_broker_refuses_are_named_and_the_others_are_stored",
        ),
    ),
    Mutant(
        "cli: a line whose outcome is not known counts as stored",
        "pyklient/cli/line_outcomes.py",
        "        except KafkaTimeoutError as unknown:\n            error = unknown",
        "        except KafkaTimeoutError:\n            error = None",
        ("tests/cli/test_line_outcomes.py::test_a_line_whose_outcome_is_not_known_in_the_end_is_not_stored",),
    ),
    Mutant(
        "cli: the last failure is shown, not the first",
        "pyklient/cli/line_outcomes.py",
        "self.error = self.error or error",
        "self.error = error",
        ("tests/cli/test_line_outcomes.py::test_the_first_failure_is_the_one_that_is_told",),
    ),
    Mutant(
        "cli: a failed line is no failure of the command",
        "pyklient/cli/commands/produce.py",
        "    if problem is not None or delivered.error is not None:\n        raise",
        "    if problem is not None:\n        raise",
        (
            "tests/cli/test_produce.py::test_lines_that_the_broker_refuses_are_named_and_the_others_are_stored",
        ),
    ),
    Mutant(
        "cli: a partial write loses the rest",
        "pyklient/cli/standard_streams.py",
        (
            "    while (count := io.FileIO.write(file, data)) is None:\n"
            "        select.select([], [file], [])\n"
            "    return count"
        ),
        "    io.FileIO.write(file, data)\n    return memoryview(data).nbytes",
        (
            "tests/cli/test_standard_streams.py::test_what_a_pipe_that_does_not_block_takes_in_parts_arrives_whole",
        ),
    ),
    Mutant(
        "cli: Ctrl-C while lines are written is forgotten",
        "pyklient/cli/signals.py",
        "    if came:\n        signal.raise_signal(came[0])\n\n\ndef _end",
        "    del came\n\n\ndef _end",
        (
            "tests/cli/test_signals.py::test_an_interrupt_waits_for_the_end_of_the_block_and_then_takes_effect",
        ),
    ),
    Mutant(
        "cli: Ctrl-C between two batches commits the last message again",
        "pyklient/cli/commands/consume.py",
        "each.offset + 1 for each in out.last",
        "each.offset for each in out.last",
        ("tests/cli/test_signals.py::test_what_was_written_before_an_interrupt_is_committed",),
    ),
    Mutant(
        "cli: one message more than asked for is printed",
        "pyklient/cli/commands/consume.py",
        "min(_BATCH, self._limit - self.written)",
        "min(_BATCH, self._limit - self.written + 1)",
        ("tests/cli/test_commands.py::test_a_group_goes_on_where_it_stopped",),
    ),
    Mutant(
        "cli: a refused deletion is no failure",
        "pyklient/cli/delete_each.py",
        "    if refused:\n        raise click.exceptions.Exit(1)\n",
        "",
        ("tests/cli/test_commands.py::test_one_that_cannot_be_deleted_does_not_keep_the_others",),
    ),
    Mutant(
        "cli: a refused deletion keeps the others",
        "pyklient/cli/delete_each.py",
        "            refused = True\n            complain(str(error))",
        "            refused = True\n            complain(str(error))\n            break",
        ("tests/cli/test_commands.py::test_one_that_cannot_be_deleted_does_not_keep_the_others",),
    ),
)

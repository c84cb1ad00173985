"""Mistakes in ``pyklient/spark/`` that tests without Java notice."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "spark: a part of a range is one offset larger than allowed",
        "pyklient/spark/source/offset_ranges.py",
        "parts = [1 if max_size is None else -(-each.size // max_size) for each in kept]",
        "parts = [1 if max_size is None else max(1, each.size // max_size) for each in kept]",
        ("tests/spark/source/test_offset_ranges.py::test_no_task_reads_more_than_it_may",),
    ),
    Mutant(
        "spark: the parts of a range overlap",
        "pyklient/spark/source/offset_ranges.py",
        "[OffsetRange(whole.partition, edges[index], edges[index + 1])",
        "[OffsetRange(whole.partition, edges[index], edges[index + 1] + 1)",
        (
            "tests/spark/source/test_offset_ranges.py::test_each_partition_is_one_task_and_an_empty_one_is_none",
        ),
    ),
    Mutant(
        "spark: a range is split into one part too few",
        "pyklient/spark/source/offset_ranges.py",
        "missing = (min_count or 0) - sum(parts)",
        "missing = (min_count or 0) - sum(parts) - 1",
        ("tests/spark/source/test_offset_ranges.py::test_the_largest_ranges_are_cut_evenly",),
    ),
    Mutant(
        "spark: records that are gone are no loss",
        "pyklient/spark/source/data_loss.py",
        "    if start < ends.first and start < end:\n",
        "    if start < ends.first - 1 and start < end:\n",
        ("tests/spark/source/test_data_loss.py::test_what_is_gone_is_left_out_and_said",),
    ),
    Mutant(
        "spark: a topic created again is read from the old offset",
        "pyklient/spark/source/data_loss.py",
        "    if start > ends.next:\n",
        "    if start > ends.next and start > end:\n",
        ("tests/spark/source/test_data_loss.py::test_what_is_gone_is_left_out_and_said",),
    ),
    Mutant(
        "spark: a small partition never moves beside a large one",
        "pyklient/spark/source/offset_ranges.py",
        "start[each] + max(1, limit * size // total)",
        "start[each] + limit * size // total",
        ("tests/spark/source/test_offset_ranges.py::test_a_small_partition_moves_beside_a_large_one",),
    ),
    Mutant(
        "spark: a load is visible before its offsets",
        "pyklient/spark/loading/data_set.py",
        (
            '            self._files.write(f"{staging.name}/{_MANIFEST}", manifest.to_json())\n'
            "            self._appear(staging.name, target, replaced, present)\n"
        ),
        (
            "            self._appear(staging.name, target, replaced, present)\n"
            '            self._files.write(f"{target}/{_MANIFEST}", manifest.to_json())\n'
        ),
        (
            "tests/spark/loading/test_data_set.py::test_a_load_whose_publication_is_not_answered_counts_once_it_is_there",
        ),
    ),
    Mutant(
        "spark: another's load passes for ours",
        "pyklient/spark/loading/data_set.py",
        "return text is not None and staging.token in text",
        "return text is not None",
        ("tests/spark/loading/test_data_set.py::test_a_number_is_published_once",),
    ),
    Mutant(
        "spark: loads that still run are removed",
        "pyklient/spark/loading/data_set.py",
        "if taken or self._files.is_abandoned(",
        "if True or self._files.is_abandoned(",
        (
            "tests/spark/loading/test_data_set.py::test_what_lost_its_number_is_swept_and_what_may_still_win_is_not",
        ),
    ),
    Mutant(
        "spark: what failed loads have left stays",
        "pyklient/spark/loading/data_set.py",
        "taken = newest is not None and int(found[1]) <= newest",
        "taken = newest is not None and int(found[1]) < newest",
        (
            "tests/spark/loading/test_data_set.py::test_what_lost_its_number_is_swept_and_what_may_still_win_is_not",
        ),
    ),
    Mutant(
        "spark: a load that was removed is published",
        "pyklient/spark/loading/file_systems.py",
        "        if not self._is_locked(folder):\n            # Spark",
        "        if False:\n            # Spark",
        ("tests/spark/loading/test_data_set.py::test_a_load_that_was_removed_while_it_ran_is_not_published",),
    ),
    Mutant(
        "spark: a directory of a live process counts as abandoned",
        "pyklient/spark/loading/file_systems.py",
        "fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        (
            "tests/spark/loading/test_data_set.py::test_what_lost_its_number_is_swept_and_what_may_still_win_is_not",
        ),
    ),
    Mutant(
        "spark: a task does not wait for its records",
        "pyklient/spark/sink/producer_cache.py",
        "        yield producer\n        producer.flush()",
        "        yield producer",
        ("tests/spark/sink/test_producer_cache.py::test_the_same_options_get_the_same_producer_again",),
    ),
    Mutant(
        "spark: a producer that failed is kept",
        "pyklient/spark/sink/producer_cache.py",
        "        _close(producer, 0)\n        raise",
        "        _idle[key] = producer\n        raise",
        (
            "tests/spark/sink/test_producer_cache.py::test_undelivered_records_raise_and_the_producer_is_not_used_again",
        ),
    ),
    Mutant(
        "spark: rows after the first chunk have the numbers of the first",
        "pyklient/spark/deduplication.py",
        "for row in range(first, first + count)]",
        "for row in range(count)]",
        ("tests/spark/sink/test_rows.py::test_headers_for_deduplication_number_the_rows_of_a_task",),
    ),
    Mutant(
        "spark: the last record of a batch is read again after a loss",
        "pyklient/spark/source/task_reader.py",
        "left._replace(start=last + 1)",
        "left._replace(start=last)",
        ("tests/spark/source/test_task_reader.py::test_a_log_that_ends_too_early_fails_the_task_or_ends_it",),
    ),
    Mutant(
        "spark: a micro-batch waits although there is enough",
        "pyklient/spark/source/micro_batch_end.py",
        "return waiting < least and",
        "return waiting <= least and",
        (
            "tests/spark/source/test_stream_reader.py::test_a_micro_batch_begins_with_the_least_number_of_offsets_and_not_before",
        ),
    ),
    Mutant(
        "spark: the limit of a micro-batch is ignored",
        "pyklient/spark/source/micro_batch_end.py",
        "return latest if most is None else limit_ends(most, begin, latest)",
        "return latest",
        ("tests/spark/source/test_stream_reader.py::test_limits_hold_but_where_spark_wants_everything",),
    ),
    Mutant(
        "spark: the first micro-batch of a query does not fix its start",
        "pyklient/spark/source/micro_batch_end.py",
        "            self._needs_empty_batch = self._options.start.moves\n",
        "            self._needs_empty_batch = False\n",
        ("tests/spark/source/test_stream_reader.py::test_the_first_batch_from_the_end_is_empty_and_pins_it",),
    ),
)

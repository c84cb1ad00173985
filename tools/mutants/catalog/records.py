"""Mistakes in ``pyklient/kernel/`` and ``pyklient/protocol/records/``, in both kernels."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "protocol: the header of a damaged batch says where the batch ends, whatever it says",
        "pyklient/protocol/records/damaged_batch.py",
        "elif not _fits_together(batch):",
        "elif batch.size < 0:",
        (
            "tests/protocol/records/test_damaged_batch.py::test_the_batch_that_follows_bounds_a_header_that_does_not_fit_together",
        ),
    ),
    Mutant(
        "protocol/records: a batch's checksum is not compared",
        "pyklient/protocol/records/batch_header.py",
        "if crc32c(self.buffer[ATTRIBUTES_AT:]) != crc:",
        "if not crc32c(self.buffer[ATTRIBUTES_AT:]):",
        ("tests/kernel/test_batch_records.py::test_a_flipped_bit_breaks_the_checksum",),
    ),
    Mutant(
        "protocol/records: the checksum leaves the header out",
        "pyklient/protocol/records/batch_header.py",
        "crc = crc32c(payload, crc32c(after_crc))",
        "crc = crc32c(payload)",
        ("tests/kernel/test_batch_records.py::test_what_is_written_is_read_back",),
    ),
    Mutant(
        "kernel: check_crcs means the opposite",
        "pyklient/kernel/decode/batch_reader.py",
        "if self._check_crcs and self.loops.crc32c",
        "if not self._check_crcs and self.loops.crc32c",
        (
            "tests/kernel/decode/test_message_decoding.py::TestDamage::test_messages_before_a_damaged_batch_come_first",
        ),
    ),
    Mutant(
        "kernel: the last record of a batch that is read in part is lost",
        "pyklient/kernel/decode/batch_reader.py",
        "if last < self.next_offset:",
        "if last <= self.next_offset:",
        ("tests/kernel/decode/test_message_decoding.py::test_messages_hold_what_was_written",),
    ),
    Mutant(
        "kernel: control records are messages",
        "pyklient/kernel/decode/batch_reader.py",
        "        if attributes & CONTROL_BIT:\n",
        "        if attributes & CONTROL_BIT and not count:\n",
        (
            "tests/kernel/decode/test_message_decoding.py::TestTransactions::test_control_batches_are_passed_over",
        ),
    ),
    Mutant(
        "kernel: aborted transactions are read",
        "pyklient/kernel/decode/batch_reader.py",
        "elif count and not (attributes & TRANSACTIONAL_BIT and self._is_aborted(producer_id, last)):",
        "elif count:",
        (
            "tests/kernel/decode/test_message_decoding.py::TestTransactions::test_aborted_batches_are_passed_over_until_their_marker",
        ),
    ),
    Mutant(
        "protocol/records: a transaction outlives its abort marker",
        "pyklient/protocol/records/aborted_transactions.py",
        "            span[1] = min(span[1], offset)\n",
        "            pass\n",
        (
            "tests/kernel/decode/test_message_decoding.py::TestTransactions::test_aborted_batches_are_passed_over_until_their_marker",
        ),
    ),
    Mutant(
        "protocol/records: a later abort marker reaches back",
        "pyklient/protocol/records/aborted_transactions.py",
        "span[1] = min(span[1], offset)",
        "span[1] = offset",
        (
            "tests/kernel/decode/test_message_decoding.py::TestTransactions::test_the_marker_of_a_later_transaction_does_not_hide_what_was_committed_before_it",
        ),
    ),
    Mutant(
        "protocol/records: a transaction begins behind its first record",
        "pyklient/protocol/records/aborted_transactions.py",
        "bisect_right(spans, offset, key=itemgetter(0))",
        "bisect_right(spans, offset - 1, key=itemgetter(0))",
        (
            "tests/kernel/decode/test_message_decoding.py::TestTransactions::test_a_transaction_of_one_record_is_hidden_too",
        ),
    ),
    Mutant(
        "protocol/records: a decompressed batch may be of any size",
        "pyklient/protocol/records/compression.py",
        "            limit -= len(part)\n            if limit < 0:",
        "            if limit < 0:",
        ("tests/protocol/records/test_compression.py::test_the_limit_is_exact",),
    ),
    Mutant(
        "kernel: records have the offsets of their neighbours",
        "pyklient/kernel/append/delivery_reports.py",
        ("            offset if offset < 0 else offset + index - report.first,\n            timestamp_ms if"),
        (
            "            offset if offset < 0 else offset + index - report.first + 1,\n"
            "            timestamp_ms if"
        ),
        (
            "tests/producer/deliver/test_sealed_batch.py::test_a_batch_too_large_for_the_broker_is_split_until_it_fits",
        ),
    ),
    Mutant(
        "kernel: a record of a split batch has the outcome of the other half",
        "pyklient/kernel/append/delivery_reports.py",
        "return reports[bisect_right(reports, index, key=_first_of) - 1]",
        "return reports[0]",
        (
            "tests/producer/deliver/test_sealed_batch.py::test_a_single_record_too_large_for_the_broker_fails_alone",
        ),
    ),
    Mutant(
        "kernel: a batch is done with its first part",
        "pyklient/kernel/append/delivery_reports.py",
        "            if self._unreported:\n                return None\n",
        "",
        (
            "tests/producer/deliver/test_sealed_batch.py::test_a_batch_too_large_for_the_broker_is_split_until_it_fits",
        ),
    ),
    Mutant(
        "protocol/records: the Python kernel reads numbers of 39 bits",
        "pyklient/protocol/records/varints.py",
        "            if folded >> bits:\n",
        "            if folded >> bits + 7:\n",
        ("tests/protocol/records/test_varints.py::test_more_bits_than_allowed_are_corrupt",),
    ),
    Mutant(
        "kernel: the Python kernel ignores a record's length",
        "pyklient/kernel/decode/record_parsing.py",
        "        if position != end:\n",
        "        if position > end:\n",
        ("tests/kernel/test_malformed.py::test_a_number_that_lies_is_corrupt_wherever_it_stands",),
    ),
    Mutant(
        "kernel: the Python kernel lets a batch be one byte too large",
        "pyklient/kernel/append/appender.py",
        "needed > known.batch_size and",
        "needed > known.batch_size + 1 and",
        ("tests/kernel/append/test_append_twins.py::TestEach::test_batches_and_memory_are_full_to_the_byte",),
    ),
    Mutant(
        "kernel: the Python kernel takes a record beyond the limit of memory",
        "pyklient/kernel/append/appender.py",
        "if cost > free_memory:",
        "if free_memory < 0:",
        ("tests/kernel/append/test_appender.py::test_memory_is_charged_until_it_is_released",),
    ),
    Mutant(
        "kernel: the Python kernel forgets the newest timestamp",
        "pyklient/kernel/append/appender.py",
        "if timestamp_ms > batch.max_timestamp or not index:",
        "if timestamp_ms < batch.max_timestamp or not index:",
        ("tests/kernel/append/test_appender.py::test_what_is_appended_is_what_a_reader_finds",),
    ),
    Mutant(
        "kernel: the compiled kernel reads numbers of 35 bits",
        "pyklient/kernel/varint.pxd",
        "if bits == 32 and number >> 32:",
        "if bits == 32 and number >> 35:",
        ("tests/kernel/test_malformed.py::test_a_number_of_33_bits_says_so",),
    ),
    Mutant(
        "kernel: the compiled kernel reads one byte too many",
        "pyklient/kernel/compiled/decode/record_parsing.pxi",
        "if <Py_ssize_t>(folded >> 1) > cursor.end - cursor.at:",
        "if <Py_ssize_t>(folded >> 1) > cursor.end - cursor.at + 1:",
        ("tests/kernel/test_malformed.py::test_a_record_cut_off_anywhere_says_so",),
    ),
    Mutant(
        "kernel: the compiled kernel ignores a record's length",
        "pyklient/kernel/compiled/decode/record_parsing.pxi",
        "        if self.cursor.at != self.record.stop:\n",
        "        if self.cursor.at > self.record.stop:\n",
        ("tests/kernel/test_malformed.py::test_a_number_that_lies_is_corrupt_wherever_it_stands",),
    ),
    Mutant(
        "kernel: the compiled kernel lets a batch be one byte too large",
        "pyklient/kernel/compiled/append/appender.pxi",
        "if needed > known.batch_size and",
        "if needed > known.batch_size + 1 and",
        ("tests/kernel/append/test_append_twins.py::TestEach::test_batches_and_memory_are_full_to_the_byte",),
    ),
    Mutant(
        "kernel: the compiled kernel takes a record beyond the limit of memory",
        "pyklient/kernel/compiled/append/appender.pxi",
        "if cost > free_memory:",
        "if free_memory < 0:",
        ("tests/kernel/append/test_appender.py::test_memory_is_charged_until_it_is_released",),
    ),
    Mutant(
        "kernel: the compiled kernel forgets the newest timestamp",
        "pyklient/kernel/compiled/append/appender.pxi",
        "if time_ms > batch.max_timestamp or not batch.count:",
        "if time_ms < batch.max_timestamp or not batch.count:",
        ("tests/kernel/append/test_appender.py::test_what_is_appended_is_what_a_reader_finds",),
    ),
    Mutant(
        "kernel: memory that is set aside is not charged",
        "pyklient/kernel/compiled/append/appender.pxi",
        "        cost += capacity - batch.capacity",
        "        cost += size",
        ("tests/kernel/append/test_append_twins.py", "tests/producer/accumulate/test_memory.py"),
    ),
    Mutant(
        "kernel: a new batch does not get the memory that it will probably need",
        "pyklient/kernel/append/open_batches.py",
        "return max(int(batch.size), int(batch.expected_size) // 2)",
        "return int(batch.expected_size) // 2",
        (
            "tests/kernel/append/test_batch_capacity.py::test_a_batch_is_not_moved_if_it_gets_as_large_as_the_one_before",
        ),
    ),
    Mutant(
        "kernel: the first batches of many take all memory",
        "pyklient/kernel/compiled/append/appender.pxi",
        "free_memory // max(appender._open_batches, 1)",
        "free_memory",
        (
            "tests/kernel/append/test_batch_capacity.py::test_each_open_batch_sets_aside_no_more_than_its_share",
        ),
    ),
    Mutant(
        "kernel: a large batch is moved again and again when memory runs short",
        "pyklient/kernel/compiled/append/appender.pxi",
        "have + max(free_memory // 2, min(free_memory, have // 2))",
        "have + free_memory // 2",
        ("tests/kernel/append/test_batch_capacity.py::test_few_moves_are_small_when_memory_runs_short",),
    ),
    Mutant(
        "kernel: batches of several leader epochs count as batches of the first",
        "pyklient/kernel/decode/batch_runs.py",
        "if not last or epoch == _leader_epoch_at(records, last):",
        "if not last or epoch <= _leader_epoch_at(records, last):",
        ("tests/consumer/test_read_epochs.py::test_batches_are_divided_where_the_leader_epoch_grows",),
    ),
)

"""Mistakes in ``pyklient/properties/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "properties: True is a boolean too",
        "pyklient/properties/values.py",
        'if value not in ("true", "false"):',
        'if str(value).lower() not in ("true", "false"):',
        ("tests/properties/test_consumer_properties.py::test_row_64_only_true_and_false_are_booleans",),
    ),
    Mutant(
        "properties: an unknown key is not reported",
        "pyklient/properties/profile.py",
        "        if not written.startswith(_EXEMPT):",
        "        if written.startswith(_EXEMPT) and written:",
        (
            "tests/properties/test_consumer_properties.py::test_row_64_an_unknown_property_is_a_warning_and_one_of_the_program_is_not",
        ),
    ),
    Mutant(
        "properties: a key of the program is reported",
        "pyklient/properties/profile.py",
        "        if not written.startswith(_EXEMPT):",
        "        if written:",
        (
            "tests/properties/test_consumer_properties.py::test_row_64_an_unknown_property_is_a_warning_and_one_of_the_program_is_not",
        ),
    ),
    Mutant(
        "properties: the last of two spellings wins",
        "pyklient/properties/profile.py",
        "            elif key in found:",
        "            elif key in found and not written:",
        ("tests/properties/test_consumer_properties.py::test_the_spellings_of_another_version_are_accepted",),
    ),
    Mutant(
        "properties: rules between properties are not checked",
        "pyklient/properties/profile.py",
        "            rule(given)",
        "            pass",
        (
            "tests/properties/test_consumer_properties.py::test_row_26_a_socket_timeout_below_the_wait_of_a_fetch_is_an_error_since_0_9",
        ),
    ),
    Mutant(
        "properties: earliest is a reset of 0.8",
        "pyklient/properties/consumer_properties.py",
        '_RESETS: Final = {"smallest": "earliest", "largest": "latest"}',
        '_RESETS: Final = {"smallest": "earliest", "largest": "latest", "earliest": "earliest"}',
        (
            "tests/properties/test_consumer_properties.py::test_row_25_earliest_is_an_error_in_the_profile_0_8",
        ),
    ),
    Mutant(
        "properties: a socket may wait for less time than the broker",
        "pyklient/properties/consumer_properties.py",
        'given["socket.timeout.ms"] + options["fetch_max_wait_ms"]',
        'given["socket.timeout.ms"]',
        (
            "tests/properties/test_consumer_properties.py::test_row_26_a_socket_timeout_below_the_wait_of_a_fetch_is_an_error_since_0_9",
        ),
    ),
    Mutant(
        "properties: Kafka coordinates the group of a profile",
        "pyklient/properties/consumer_properties.py",
        '"coordination": "zookeeper"',
        '"coordination": "kafka"',
        (
            "tests/properties/test_consumer_properties.py::test_the_group_is_coordinated_by_zookeeper_with_the_defaults_of_the_profile",
        ),
    ),
    Mutant(
        "properties: 0.7 has the defaults of 0.8",
        "pyklient/properties/consumer_properties.py",
        "return replace(new, key=key, default=default,",
        "return replace(new, key=key,",
        (
            "tests/properties/test_consumer_properties.py::test_the_group_is_coordinated_by_zookeeper_with_the_defaults_of_the_profile",
        ),
    ),
    Mutant(
        "properties: a partitioner is always set",
        "pyklient/properties/producer_properties.py",
        "        if key in given and given[key]",
        "        if given.values.get(key) and given[key]",
        (
            "tests/properties/test_producer_properties.py::test_without_properties_the_options_are_the_defaults_of_the_profile",
        ),
    ),
    Mutant(
        "properties: a class gets no properties",
        "pyklient/properties/class_names.py",
        "[properties] if _takes_one(found) else []",
        "[]",
        (
            "tests/properties/test_producer_properties.py::test_classes_are_named_by_module_and_name_or_by_the_names_of_kafka",
        ),
    ),
    Mutant(
        "properties: the first codec is number 1",
        "pyklient/properties/values.py",
        "return names[number]",
        "return names[number - 1]",
        ("tests/properties/test_producer_properties.py::test_a_codec_is_a_name_or_a_number",),
    ),
)

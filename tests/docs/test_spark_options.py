"""The page about Spark has the options that the code has."""

from pyklient.spark.options import OPTIONS
from tools.docs.spark_options import PAGE, filled


def test_the_tables_of_options_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == filled(text), "run: python -m tools.docs.spark_options"
    assert [option.name for option in OPTIONS if f"`{option.name}`" not in text] == []

"""Spark's Python workers import the compiled modules of PySpark, and not its sources from an archive."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers.spark_home import make_spark_home, spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.java
def test_a_worker_imports_compiled_modules(spark: "SparkSession") -> None:
    def modules(_: int) -> tuple[str | None, str | None]:
        import pyspark

        assert pyspark.__spec__ is not None
        return pyspark.__spec__.origin, pyspark.__spec__.cached

    source, compiled = spark.sparkContext.parallelize([0], 1).map(modules).first()
    assert source == str(spark_home() / "python/lib/pyspark.zip/pyspark/__init__.py")
    assert compiled is not None
    assert Path(compiled).is_file()


def test_a_home_that_exists_is_used_again(tmp_path: Path) -> None:
    home = make_spark_home(tmp_path / "home")
    (home / "work").mkdir()
    assert make_spark_home(home) == home
    assert (home / "work").is_dir()
    assert (home / "bin" / "spark-class").is_file()

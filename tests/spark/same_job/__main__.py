"""``python -m tests.spark.same_job BOOTSTRAP PREFIX JARS OUTPUT`` runs every job with either word.

What came of each is written to OUTPUT as JSON, for the test to compare.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException

from tests.spark.same_job.jobs import ERRORS, JOBS, LIMITED, Word
from tests.spark.same_job.topics import make_topics
from tests.spark.same_job.writes import REFUSED, WRITES
from tests.spark.session import new_session

_WORDS = ("kafka", "pyklient")


def main(bootstrap: str, prefix: str, jars: str, output: str) -> None:
    """Run them all."""
    topics = make_topics(bootstrap, prefix)
    with tempfile.TemporaryDirectory() as home:
        spark = new_session("local[2]", Path(home), {"spark.jars": jars})
        spark.sparkContext.setLogLevel("OFF")
        words = {
            word: Word(spark, bootstrap, topics, word, other)
            for word, other in zip(_WORDS, reversed(_WORDS), strict=True)
        }
        found: dict[str, Any] = {"version": pyspark.__version__, "jobs": {}, "errors": {}}
        for name, job in (JOBS | WRITES).items():
            found["jobs"][name] = {word: _rows(job, words[word]) for word in _WORDS}
        for name, (job, _) in (ERRORS | REFUSED).items():
            found["errors"][name] = {word: _error(job, words[word]) for word in _WORDS}
        found["limit"] = _error(LIMITED, words["pyklient"])
        spark.stop()
    Path(output).write_text(json.dumps(found), encoding="utf-8")


def _rows(job: Any, word: Word) -> dict[str, Any]:
    """What a job gives: its schema, and its rows as text, sorted."""
    began = time.monotonic()
    try:
        frame = job(word, word.topics)
        rows = sorted(str(row) for row in frame.collect())
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:4000]}
    return {"schema": frame.schema.jsonValue(), "rows": rows, "seconds": round(time.monotonic() - began, 2)}


def _error(job: Any, word: Word) -> str | None:
    try:
        job(word, word.topics).collect()
    except PySparkException as error:
        return str(error)
    except Exception as error:
        # IllegalArgumentException and AssertionError of the JVM come as what py4j makes of them.
        return str(error)
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])

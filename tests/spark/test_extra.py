"""pyklient works without Spark, and does not import it unless it is used."""

import subprocess
import sys


def test_importing_pyklient_imports_neither_pyspark_nor_pyarrow() -> None:
    program = "import sys, pyklient; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_pyspark_the_error_names_the_extra() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import pyklient.spark"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert ran.stderr.strip().endswith(
        "install the extra `spark`: pip install '.[spark]' in the clone of pyklient"
    )

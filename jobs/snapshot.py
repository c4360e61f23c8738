"""spark-submit entry point: copies all tables into an empty target, or some tables again.

spark-submit jobs/snapshot.py conf/replica.toml [--table DB.TABLE ...]

It takes the options of ``spark-repl snapshot``, prints the same and ends with the same codes. The
master is spark-submit's.
"""

import sys

from spark_repl.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["snapshot", "--config", *sys.argv[1:]]))

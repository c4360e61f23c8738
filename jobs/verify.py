"""spark-submit entry point: compares the source's rows with the tables', on the executors.

spark-submit jobs/verify.py conf/replica.toml [--sample P] ...

It takes the options of ``spark-repl verify``, prints the same and ends with the same codes. The
master is spark-submit's.
"""

import sys

from spark_repl.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["verify", "--config", *sys.argv[1:], "--master", "of spark-submit"]))

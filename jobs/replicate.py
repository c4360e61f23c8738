"""spark-submit entry point: follows the relay folder of a configuration file.

spark-submit --jars <Delta jars> jobs/replicate.py conf/replica.toml [--available-now]
"""

import argparse
import signal

from spark_repl import build_session
from spark_repl.apply.replica import Replica
from spark_repl.config import load
from spark_repl.observe.progress import Progress

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("config", help="TOML file, see conf/replica.toml")
parser.add_argument("--available-now", action="store_true", help="end where the log ends now")
options = parser.parse_args()
config = load(options.config)
with Progress(config) as progress:
    replica = Replica(build_session("replicate", target=config.target.path), config, progress.group)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: replica.stop())
    with replica:
        progress.begin(replica)
        result = replica.apply(follow=not options.available_now)
print(f"{result.counters.transactions} transactions, now at {result.relay_position}")

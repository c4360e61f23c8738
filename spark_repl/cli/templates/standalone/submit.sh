#!/bin/sh
# Submits @name@ to a standalone master. Run it beside @config@ and job.py.
# PYSPARK_PYTHON: the Python with spark_repl installed, under one path on all machines.
set -eu
: "${MASTER:?set it to spark://HOST:7077}"
: "${PYSPARK_PYTHON:?set it to the Python that has spark_repl, on all machines}"
export PYSPARK_PYTHON
exec spark-submit --master "$MASTER" --name @name@ \
  --conf spark.python.daemon.module=spark_repl.service.worker_daemon \
  --conf spark.speculation=false \
  "$@" job.py @config@

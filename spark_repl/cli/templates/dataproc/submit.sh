#!/bin/sh
# Submits @name@ to a Dataproc cluster. Run it beside @config@, job.py and environment.tar.gz.
# docs/run-on/dataproc.md says how to build environment.tar.gz.
set -eu
: "${CLUSTER:?set it to the name of the cluster}"
: "${REGION:?set it to the region of the cluster}"
python=./environment/bin/python
gcloud dataproc jobs submit pyspark job.py --cluster "$CLUSTER" --region "$REGION" --async \
  --max-failures-per-hour 4 \
  --archives environment.tar.gz#environment --files @config@ \
  --properties "^;^spark.submit.deployMode=cluster;\
spark.yarn.appMasterEnv.PYSPARK_PYTHON=$python;\
spark.executorEnv.PYSPARK_PYTHON=$python;\
spark.yarn.appMasterEnv.SPARK_REPL_CACHE=/tmp/spark_repl;\
spark.executorEnv.SPARK_REPL_CACHE=/tmp/spark_repl;\
spark.yarn.maxAppAttempts=1;spark.executor.failuresValidityInterval=1h;spark.speculation=false;\
spark.python.daemon.module=spark_repl.service.worker_daemon" \
  -- @config@

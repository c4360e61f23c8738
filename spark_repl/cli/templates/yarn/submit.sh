#!/bin/sh
# Submits @name@ to YARN in cluster mode. Run it beside @config@, job.py and environment.tar.gz.
# docs/run-on/yarn.md says how to build environment.tar.gz.
set -eu
: "${HADOOP_CONF_DIR:?set it to the folder that has yarn-site.xml}"
python=./environment/bin/python
exec spark-submit --master yarn --deploy-mode cluster --name @name@ \
  --archives environment.tar.gz#environment --files @config@ \
  --conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=$python \
  --conf spark.executorEnv.PYSPARK_PYTHON=$python \
  --conf spark.yarn.appMasterEnv.SPARK_REPL_CACHE=/tmp/spark_repl \
  --conf spark.executorEnv.SPARK_REPL_CACHE=/tmp/spark_repl \
  --conf spark.yarn.maxAppAttempts=4 \
  --conf spark.yarn.am.attemptFailuresValidityInterval=1h \
  --conf spark.executor.failuresValidityInterval=1h \
  --conf spark.speculation=false \
  --conf spark.python.daemon.module=spark_repl.service.worker_daemon \
  "$@" job.py @config@

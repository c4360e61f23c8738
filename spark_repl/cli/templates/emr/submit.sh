#!/bin/sh
# Uploads @config@, job.py and environment.tar.gz, and adds @name@ as a step of an EMR cluster.
# docs/run-on/emr.md says how to build environment.tar.gz.
set -eu
: "${CLUSTER:?set it to the id of the cluster, j-...}"
: "${ARTIFACTS:?set it to s3://bucket/prefix for these files}"
for file in @config@ job.py environment.tar.gz; do aws s3 cp "$file" "$ARTIFACTS/$file"; done
python=./environment/bin/python
aws emr add-steps --cluster-id "$CLUSTER" --steps "Type=Spark,Name=@name@,ActionOnFailure=CONTINUE,Args=[\
--deploy-mode,cluster,\
--archives,$ARTIFACTS/environment.tar.gz#environment,\
--files,$ARTIFACTS/@config@,\
--conf,spark.yarn.appMasterEnv.PYSPARK_PYTHON=$python,\
--conf,spark.executorEnv.PYSPARK_PYTHON=$python,\
--conf,spark.yarn.appMasterEnv.SPARK_REPL_CACHE=/tmp/spark_repl,\
--conf,spark.executorEnv.SPARK_REPL_CACHE=/tmp/spark_repl,\
--conf,spark.yarn.maxAppAttempts=4,\
--conf,spark.yarn.am.attemptFailuresValidityInterval=1h,\
--conf,spark.executor.failuresValidityInterval=1h,\
--conf,spark.speculation=false,\
--conf,spark.python.daemon.module=spark_repl.service.worker_daemon,\
$ARTIFACTS/job.py,@config@]"

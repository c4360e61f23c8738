# Databricks notebook source
# MAGIC %md
# MAGIC # Where are my rows?
# MAGIC For a target that `spark-repl run` fills. A cut is a version of each table; together they
# MAGIC are one committed state of the source. Widgets: `target`, `cut` (`latest`, a time, a GTID
# MAGIC set or the name of a pin), `table`. Nothing is written.

# COMMAND ----------
from functools import partial

from spark_repl import build_session, cut, wait_for
from spark_repl.cli import configuration

widget = partial(configuration.widget, globals().get("dbutils"))

target, at, table = (
    widget("target", "lake"),
    widget("cut", "latest"),
    widget("table", "bank.account"),
)

# COMMAND ----------
# A session of its own in the notebook's Spark: settings and views of yours stay as they are.
spark = build_session("notebook_cuts", target=target)
now = cut(spark, target, at=at)

# COMMAND ----------
# MAGIC %md
# MAGIC ## The tables at this cut

# COMMAND ----------
print("after the transactions", now.gtid_executed)
for name in now.tables:
    print(name, now.table(name).count(), "rows")

# COMMAND ----------
# MAGIC %md
# MAGIC ## The rows of a table

# COMMAND ----------
now.table(table).show(5)

# COMMAND ----------
# MAGIC %md
# MAGIC ## A join at one cut
# MAGIC The newest versions of two tables may be of different moments. At a cut they are of one.
# MAGIC Money that the demo's bank moves is in one of three tables: the sum is the same at each cut.

# COMMAND ----------
now.create_views("now_")
spark.sql("""
    SELECT (SELECT sum(balance) FROM now_bank_account)
         + (SELECT sum(balance) FROM now_bank_till)
         + (SELECT coalesce(sum(amount), 0) FROM now_bank_pending) AS money
""").show()

# COMMAND ----------
# MAGIC %md
# MAGIC ## My own transaction
# MAGIC After a COMMIT on the source, wait for the first cut with it. Its GTID is in
# MAGIC `@@gtid_executed`; here this cut's own set is used. `wait_for` needs no Spark.

# COMMAND ----------
wait_for(target, now.gtid_executed, timeout_s=60)
own = cut(spark, target, at=now.gtid_executed)
print(own.table(table).count(), "rows when these transactions were there")

# COMMAND ----------
# MAGIC %md
# MAGIC ## For other engines
# MAGIC Paths, versions and files of the same cut.

# COMMAND ----------
for name, found in now.manifest()["tables"].items():
    print(name, found["path"], "version", found["version"], len(found["files"]), "files")

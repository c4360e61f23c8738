# Databricks notebook source
# MAGIC %md
# MAGIC # A table as it was
# MAGIC For tables with `mode = "history"`: a row for each version of each row (SCD type 2).
# MAGIC Widgets: `target`, `cut`, `table`. Nothing is written.

# COMMAND ----------
from functools import partial

from pyspark.sql.functions import col, count

from spark_repl import build_session, cut, history_at
from spark_repl.cli import configuration

widget = partial(configuration.widget, globals().get("dbutils"))

target, at, table = (
    widget("target", "past"),
    widget("cut", "latest"),
    widget("table", "bank.account"),
)

# COMMAND ----------
# A session of its own in the notebook's Spark: settings and views of yours stay as they are.
spark = build_session("notebook_history", target=target)
now = cut(spark, target, at=at)
versions = now.table(table)
print(table, "is one of", sorted(now.histories))

# COMMAND ----------
# MAGIC %md
# MAGIC ## The rows with the most versions
# MAGIC `_valid_from_...` and `_valid_to_...` say for which time a version holds.

# COMMAND ----------
versions.groupBy("id").agg(count("*").alias("versions")).orderBy(col("versions").desc()).show(5)

# COMMAND ----------
# MAGIC %md
# MAGIC ## The table at an earlier moment
# MAGIC Also with `time=` or `position=`. Here: at this cut's transactions.

# COMMAND ----------
then = history_at(versions, gtid_executed=now.gtid_executed)
print(then.count(), "rows then,", versions.count(), "versions")

# COMMAND ----------
# MAGIC %md
# MAGIC ## Views and functions for SQL

# COMMAND ----------
for name in sorted(now.create_history_views()):
    print(name)
current = f"{table.replace('.', '_')}_current"
spark.sql(f"SELECT count(*) AS current_rows FROM {current}").show()

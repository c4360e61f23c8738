# Databricks notebook source
# MAGIC %md
# MAGIC # A silver table from a change feed
# MAGIC For a target that `spark-repl run` fills with `target.change_data_feed = true`. Widgets:
# MAGIC `target`, `table`, `keys` and `columns` of the silver table, `silver` (its folder). Each run
# MAGIC processes the changes up to now.

# COMMAND ----------
import os
from functools import partial

from pyspark.sql import DataFrame, Window
from pyspark.sql.functions import col, row_number

from spark_repl import build_session, cut
from spark_repl.cli import configuration

widget = partial(configuration.widget, globals().get("dbutils"))

target, name = widget("target", "lake"), widget("table", "bank.account")
keys, wanted = widget("keys", "id").split(","), widget("columns", "id,balance").split(",")
silver = os.path.abspath(widget("silver", "silver/account"))  # SQL accepts only absolute paths
checkpoint = f"{silver}_checkpoint"

# COMMAND ----------
# A session of its own in the notebook's Spark: settings and views of yours stay as they are.
spark = build_session("notebook_change_feed", target=target)
now = cut(spark, target)
table, path = now.table(name), now.manifest()["tables"][name]["path"]
spark.createDataFrame([], table.select(*wanted).schema).write.format("delta").mode("ignore").save(
    silver
)


# COMMAND ----------
# MAGIC %md
# MAGIC ## Merge
# MAGIC A batch may have several changes of a row: the last one counts. A commit is one group of the
# MAGIC source's transactions, and has at most one change of a row.


# COMMAND ----------
def merge(changes: DataFrame, batch: int) -> None:
    changes = changes.where("_change_type != 'update_preimage'")
    newest = Window.partitionBy(*keys).orderBy(col("_commit_version").desc())
    last = changes.withColumn("n", row_number().over(newest)).where("n = 1").drop("n")
    last.createOrReplaceTempView("changes")
    on = " AND ".join(f"s.{key} = c.{key}" for key in keys)
    values = {name: f"c.{name}" for name in wanted}
    changes.sparkSession.sql(
        f"MERGE INTO delta.`{silver}` s USING changes c ON {on}"
        " WHEN MATCHED AND c._change_type = 'delete' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {', '.join(f'{n} = {v}' for n, v in values.items())}"
        f" WHEN NOT MATCHED AND c._change_type != 'delete'"
        f" THEN INSERT ({', '.join(values)}) VALUES ({', '.join(values.values())})"
    )


# COMMAND ----------
# MAGIC %md
# MAGIC ## Process the changes up to now
# MAGIC The next run continues after them.

# COMMAND ----------
feed = (
    spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
)
query = (
    feed.load(path)
    .writeStream.foreachBatch(merge)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

# COMMAND ----------
# MAGIC %md
# MAGIC ## Compare
# MAGIC If nothing was committed meanwhile, silver has the rows of the table.

# COMMAND ----------
rows = spark.read.format("delta").load(silver)
print(rows.count(), "rows,", rows.exceptAll(table.select(*wanted)).count(), "other than its")

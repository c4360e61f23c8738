# Databricks notebook source
# COMMAND ----------
# A silver table from the change feed of a replicated table. notebook_replicate has created the
# target "lake", with target.change_data_feed = true.
import os

from pyspark.sql import DataFrame, Window
from pyspark.sql.functions import col, row_number

from spark_repl import build_session, cut

spark = build_session("notebook_change_feed", target="lake")
now = cut(spark, "lake")
table, account = now.table("bank.account"), now.manifest()["tables"]["bank.account"]["path"]
silver = os.path.abspath("silver/account")  # SQL accepts only absolute paths
checkpoint = os.path.abspath("silver/account_checkpoint")

# COMMAND ----------
# The key of a row, and the columns of silver.
keys, wanted = ["id"], ["id", "balance"]
spark.createDataFrame([], table.select(*wanted).schema).write.format("delta").mode("ignore").save(
    silver
)


# COMMAND ----------
# A batch may have several changes of a row: the last one counts. A commit is one group of the
# source's transactions, and has at most one change of a row.
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
# Process the changes up to now, then end. The next run continues after them.
feed = (
    spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
)
query = (
    feed.load(account)
    .writeStream.foreachBatch(merge)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

# COMMAND ----------
# At the newest version silver has the rows of the table.
rows = spark.read.format("delta").load(silver)
print(rows.count(), "accounts,", rows.exceptAll(table.select(*wanted)).count(), "other than its")

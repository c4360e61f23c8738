# Databricks notebook source
# COMMAND ----------
# Reading cuts: all tables at one committed state of the source. notebook_replicate has created
# "lake".
from spark_repl import build_session, cut, wait_for

target = "lake"
spark = build_session("notebook_cuts", target=target)

# COMMAND ----------
# The newest cut, and its tables as views.
now = cut(spark, target)
print(now.gtid_executed)
now.create_views("now_")
spark.sql("SELECT count(*) AS accounts FROM now_bank_account").show()

# COMMAND ----------
# The first cut that holds a set of transactions, such as @@gtid_executed after your own COMMIT.
# wait_for waits for it, at most timeout_s seconds.
wait_for(target, now.gtid_executed, timeout_s=60)
own = cut(spark, target, at=now.gtid_executed)
print(own.table("bank.account").count(), "accounts when these transactions were there")

# COMMAND ----------
# What another engine needs to read the same cut: paths, versions, files.
for name, table in own.manifest()["tables"].items():
    print(name, "version", table["version"])

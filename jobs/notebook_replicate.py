# Databricks notebook source
# COMMAND ----------
# The folders of the log and of the tables. On a cluster all workers have to mount both.
from spark_repl import Config, Replica, build_session, cut

config = Config().override({
    "relay.path": "spark_repl/demo/bank", "target.path": "lake", "target.change_data_feed": True,
})  # fmt: skip
# A session of its own: a notebook's session keeps its settings.
spark = build_session("notebook_replicate", target=config.target.path)

# COMMAND ----------
# Apply what the log holds now, then end. The next run continues at the tables' position.
with Replica(spark, config) as replica:
    result = replica.apply()
print(f"{result.counters.transactions} transactions, now at {result.position}")

# COMMAND ----------
# Every table at one committed state of the source.
now = cut(spark, config.target.path)
for name in now.tables:
    print(name, now.table(name).count())

# COMMAND ----------
# The same as views: bank_account, bank_transfer, ...
now.create_views()
spark.sql("SELECT sum(balance) AS balance FROM bank_account").show()

# Databricks notebook source
# MAGIC %md
# MAGIC # Operations
# MAGIC The state of a target, and `verify`. The commands are those of a shell. None of them starts
# MAGIC or stops the applier. Widgets: `target`; `config`: the file of `run`, if `verify` is to
# MAGIC compare with the source.

# COMMAND ----------
from functools import partial

from spark_repl.cli import configuration
from spark_repl.cli.main import main

widget = partial(configuration.widget, globals().get("dbutils"))

folder, config = widget("target", "lake"), widget("config", "")

# COMMAND ----------
# MAGIC %md
# MAGIC ## Does the applier run, how late is it, is anything wrong?

# COMMAND ----------
target = ["--target", folder]
main(["status", *target])

# COMMAND ----------
# MAGIC %md
# MAGIC ## The retained cuts
# MAGIC A pinned cut is retained until it is unpinned.

# COMMAND ----------
main(["cut", "pin", "--at", "latest", "--name", "month_end", *target])
main(["cut", "show", "--at", "month_end", *target])

# COMMAND ----------
# MAGIC %md
# MAGIC ## Verify
# MAGIC With the source, if there is a configuration; otherwise the changes between two cuts, row by
# MAGIC row.

# COMMAND ----------
if config:
    main(["verify", "--config", config])
else:
    with open("operations.toml", "w") as file:
        file.write(f'[target]\npath = "{folder}"\n')
    main(["verify", "--config", "operations.toml", "--between", "month_end", "latest"])
main(["cut", "unpin", "--name", "month_end", *target])

# COMMAND ----------
# MAGIC %md
# MAGIC ## The whole state as one HTML file, for a ticket

# COMMAND ----------
main(["report", "--out", "report.html", *target])

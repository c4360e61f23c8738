# Databricks notebook source
# COMMAND ----------
# Operations: the state of a target. notebook_replicate has created "lake". The commands are those
# of a shell. None of them starts or stops the applier.
from spark_repl.cli.main import main

target = ["--target", "lake"]

# COMMAND ----------
# Does the applier run, how late is it, is anything wrong, what is it doing?
main(["status", *target])

# COMMAND ----------
# The retained cuts. A pinned cut is retained until it is unpinned.
main(["cut", "pin", "--at", "latest", "--name", "month_end", *target])
main(["cut", "show", "--at", "month_end", *target])

# COMMAND ----------
# The changes between two cuts, row by row, without the source.
with open("operations.toml", "w") as file:
    file.write('[target]\npath = "lake"\n')
main(["verify", "--config", "operations.toml", "--between", "month_end", "latest"])
main(["cut", "unpin", "--name", "month_end", *target])

# COMMAND ----------
# The whole state as one HTML file, for a ticket.
main(["report", "--out", "report.html", *target])

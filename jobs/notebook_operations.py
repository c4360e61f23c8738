# Databricks notebook source
# COMMAND ----------
# Operations: what a target says of itself. "lake" is what notebook_replicate has made. The commands
# are those of a shell; none of them starts or stops the applier.
from spark_repl.cli.main import main

target = ["--target", "lake"]

# COMMAND ----------
# Does it run, how far is it behind, is anything wrong, what is it doing.
main(["status", *target])

# COMMAND ----------
# Cuts that are kept; one is kept until it is let go, by a name.
main(["cut", "pin", "--at", "latest", "--name", "month_end", *target])
main(["cut", "show", "--at", "month_end", *target])

# COMMAND ----------
# What has changed between two cuts, row by row, without the source.
with open("operations.toml", "w") as file:
    file.write('[target]\npath = "lake"\n')
main(["verify", "--config", "operations.toml", "--between", "month_end", "latest"])
main(["cut", "unpin", "--name", "month_end", *target])

# COMMAND ----------
# The whole state as one HTML file, for a ticket.
main(["report", "--out", "report.html", *target])

"""JavaCalls: what each commit asks of the JVM, looked up once.

Py4J asks the JVM for each part of a name, ``jvm.org.apache...``, each time that it is said: that
made 70 round trips of a commit that has 25 calls.
"""

from __future__ import annotations

from typing import Any


class JavaCalls:
    """Classes and methods of Spark, Delta and Scala. Any thread may call them."""

    def __init__(self, jvm: Any) -> None:
        delta, sql = jvm.org.apache.spark.sql.delta, jvm.org.apache.spark.sql
        self.option = jvm.scala.Option
        self.new_list = jvm.java.util.ArrayList
        self.to_sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self.set_active = sql.classic.SparkSession.setActiveSession
        self.streaming_update = getattr(delta, "DeltaOperations$StreamingUpdate")
        self.update_mode = sql.streaming.OutputMode.Update()
        self.mapper = delta.util.JsonUtils.mapper()
        self.from_json = delta.actions.Action.fromJson

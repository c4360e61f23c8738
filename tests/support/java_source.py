"""Java's source to classes, by Janino, which Spark brings for its own code: no JDK is needed.

``python -m tests.support.java_source`` makes those in ``spark_repl/runtime/java`` anew.
"""

from __future__ import annotations

from typing import Any

from spark_repl.runtime.java_classes import FOLDER


def classes_of(jvm: Any, source: str) -> dict[str, bytes]:
    """The classes of a source by their names, in its order; nothing of where it was compiled is in
    them."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler.setParentClassLoader(loader)
    compiler.setDebuggingInformation(False, False, False)
    compiler.cook(source)
    return {str(name): bytes(code) for name, code in compiler.getBytecodes().items()}


def sources(*, s3: bool = False) -> dict[str, str]:
    """The package's own, by the name of the file: those that need S3A's jars, or the others."""
    texts = {path.name: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.java"))}
    return {name: text for name, text in texts.items() if s3 is ("hadoop.fs.s3a" in text)}


def main() -> None:
    from spark_repl.runtime.session import build_session

    spark = build_session(master="local[1]", target="s3://any/where")
    for source in (*sources().values(), *sources(s3=True).values()):
        for name, code in classes_of(spark._jvm, source).items():
            (FOLDER / f"{name.rpartition('.')[2]}.class").write_bytes(code)
    spark.stop()


if __name__ == "__main__":
    main()

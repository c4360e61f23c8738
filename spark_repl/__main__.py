"""``python -m spark_repl`` is ``spark-repl``."""

from .cli import main

raise SystemExit(main())

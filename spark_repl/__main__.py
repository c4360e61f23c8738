"""``python -m spark_repl`` is ``spark-repl``."""

from .cli.main import main

raise SystemExit(main())

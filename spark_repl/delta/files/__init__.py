"""Files that a Delta log names: Parquet columns, statistics, deletion vectors, partitions."""

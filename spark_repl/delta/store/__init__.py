"""Where tables are: files and objects, their removal, and tables that delta-rs opens."""

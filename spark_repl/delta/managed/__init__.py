"""Tables that Unity Catalog manages: their commits go to the catalog, and then into the log.

``unity_catalog`` has the catalog's requests, ``managed_tables`` creates tables and commits to them
(docs/design/catalog-managed.md). A version that the catalog has not accepted is never written to
``_delta_log``.
"""

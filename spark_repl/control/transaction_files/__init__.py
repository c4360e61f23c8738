"""Transaction files: bytes of the relay log that a target keeps in files of its own.

``xa_store`` keeps prepared XA branches below ``_repl/xa``, ``quarantine_store`` the transactions
whose changes of a quarantined table are not applied. A file is on the disk before a cut names it.
"""

"""Demo: applies a bank's recorded log to Delta tables, with two kills, and checks every cut; or
follows a shop on a MySQL server (``live_demo``).

In: the binary logs in ``bank/``, which a MySQL server wrote. Out: the tables, the sum of the bank's
money at each cut, and DemoError if a sum or a row is wrong. The demo runs the users' commands in
separate processes, and kills them.

The bank needs no server, and writes only into its folder.
"""

"""Demo: a recorded bank becomes Delta tables, with two kills on the way; every cut is checked.

In: the binary logs in ``bank/``, which a MySQL server has written. Out: the tables, what each cut
says of the bank's money, and DemoError where one is wrong. It runs the commands that users run, in
processes of their own, which it kills.

Never writes outside the folder that it is given, and needs no server.
"""

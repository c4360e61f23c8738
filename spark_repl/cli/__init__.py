"""The command line: arguments -> one command; what it prints, and its exit code.

In: arguments, and the configuration file that they name. Out: text for people, or with ``--json``
one object as the last line; errors go to standard error, with what to do.

Nothing is decided here that Python could not ask for: each command is a call of another room.
"""

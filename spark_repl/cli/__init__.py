"""The command line: arguments -> one command, its output and its exit code.

In: arguments, and the configuration file that they name. Out: text for people, or with ``--json``
one object as the last line. Errors go to standard error, with a hint.

The room decides nothing: each command is a call of another room, which Python can also make.
"""

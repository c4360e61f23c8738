"""The command line: arguments -> one command; what it prints, and its exit code.

Nothing is decided here that Python could not ask for: each command is a call of another room.
"""

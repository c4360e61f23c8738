"""Receiver: a source's dump -> the relay log. The only writer of relay logs.

In: packets of a dump connection. Out: files that hold whole events, and the published end after the
bytes that are safely on disk. ``receiver`` connects again when the connection is lost. After any
end of the process ``recovery`` determines the content of the files. ``purge`` removes files that
every table has passed and no reader's lease (``relay.lease``) holds. ``archiver`` copies published
bytes to an object store, and ``restored_log`` restores a lost log from there.

One receiver per folder; it never waits for a reader and knows nothing of tables.
"""

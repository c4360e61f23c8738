"""Control table: a small Delta table, ``<target>/_repl/control``, and how its rows are stored.

``control_rows`` reads all rows and needs no owner, ``control`` writes them as the owner.
``control_snapshot`` is the content of one version. A cut (``cut``, and its tables, ``cut_tables``)
belongs here and not to ``cuts``, since the snapshot decodes it; ``earlier_cuts`` converts cuts of
earlier versions. ``layout`` says where files of a target are.
Nothing here knows the kinds of rows: ``Control.prune`` is given the rules (``records/pruning``).
"""

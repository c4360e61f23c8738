"""JSON: binary documents -> text as the server prints it, or Variant; diffs applied to documents.

``json_walk`` iterates over a document's containers. ``scalar_text`` prints one value, ``json_text``
a whole document. ``parse`` reads text back. ``nodes`` is the table of values that text and binary
form share. ``variant_encoding`` and ``variant_text`` write Parquet's Variant encoding.
"""

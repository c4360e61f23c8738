"""JSON: binary documents -> text as the server prints it, or Variant; diffs applied to documents.

``json_document`` iterates over a document's containers, and has the table of values that text and
binary form share. ``scalar_text`` prints one value, ``json_text`` a whole document. ``parse`` reads
text back. ``variant_encoding`` and ``variant_text`` write Parquet's Variant encoding.
"""

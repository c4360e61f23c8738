"""JSON: binary documents -> text as the server prints it, or Variant; diffs applied to documents.

``walk`` goes through a document's containers, ``scalar_text`` prints one value, ``text`` all;
``parse`` reads text back (``nodes`` is what both have in common), ``variant`` writes Parquet's
encoding.
"""

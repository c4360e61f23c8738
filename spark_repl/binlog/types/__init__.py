"""Types: the bytes of one column's values -> an Arrow array, for every MySQL type except JSON.

In: a buffer, and the places of the values in it. Out: an array that holds every value exactly, or
text if Arrow has no such type (``forms`` selects the type). Character sets are converted as the
server does (`binlog/charsets`).
"""

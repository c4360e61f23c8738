"""Types: the bytes of one column's values -> an Arrow array, for every MySQL type but JSON.

In: a buffer, and where the values lie in it. Out: an array that holds every value exactly, or
text where Arrow has no such type (``forms`` says which). Character sets are converted as the
server does (`binlog/charsets`).
"""

"""Convert values of one MySQL column type to another, as MySQL does.

In: two column types, and Arrow arrays of values. Out: arrays of the new type, or a named refusal
where the result depends on something that the binary log does not record. Pure. Each conversion was
measured on a server; the tests hold the recorded results.
"""

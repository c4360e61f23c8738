"""Status: one look at a target, from its control table and the reports of its processes.

In: the control table, the reports, the receiver's report, and the tables' own logs if wanted. Out:
``status``, one dict with MySQL's names, with the problems that it shows. Only reads.
"""

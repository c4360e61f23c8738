"""Reports: what running processes record of themselves for others to read.

Each report is one JSON file of the working state, replaced in one step: ``applier_status`` of the
applier, ``run_report`` of a ``run`` without an applier, ``verify_status`` of the last ``verify``.
The other modules hold the parts of the applier's report. No restart reads a position from here.
"""

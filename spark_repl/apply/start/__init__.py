"""The start of an applier: where it resumes, which quarantines and repairs come first."""

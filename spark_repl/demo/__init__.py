"""Demo: a recorded bank becomes Delta tables, with two kills on the way; every cut is checked."""

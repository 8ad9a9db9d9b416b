"""Remaking the experiments: which runs there are, running them, comparing, drawing."""

"""Hindsight queries: what a history must know to answer what later steps of its episode ask."""

"""The random batches of the other losses."""

from tests.losses.conftest import random_case

__all__ = ["random_case"]

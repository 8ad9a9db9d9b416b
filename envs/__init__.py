"""The tasks that ship with the toolkit, one folder each: game rules, environment, task, players.

Importing this package registers the environments with gymnasium.
"""

import textrl.envs.registration  # noqa: F401

"""The rules of My Way Home as numbers, for those who do not need the engine."""

ACTIONS = ("turn_left", "turn_right", "forward")
TURN_LEFT, TURN_RIGHT, FORWARD = range(3)
FRAME_SKIP = 4
"""Tics that an action lasts; a tic is a 35th of a second."""
HORIZON = 525
"""Decisions until an episode is cut off: 2,100 tics."""
TIC_REWARD = -0.0001
HOME_REWARD = 1.0
SIDE = 80
FRAME_SHAPE = (SIDE, SIDE)

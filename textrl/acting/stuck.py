"""Who sees what was just seen gets nowhere: noticed from the observations alone."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from textrl.data.frames import Pixels

ALIKE = 2.0
"""Mean difference of two frames, in levels of 255, up to which they show the same. A still view has
its little animations; in ViZDoom, whoever moves sees 11 levels change (median of one decision)."""


class Views:
    """What some episodes saw before their last actions."""

    def __init__(self, actions: int) -> None:
        """actions: how many of them back."""
        self._seen: deque[tuple[NDArray[np.int64], Pixels | None]] = deque(maxlen=actions + 1)

    def begin(self, tokens: NDArray[np.int64], frames: Pixels | None) -> None:
        """Forget everything; new episodes see this first, as in Policy.begin."""
        self._seen.clear()
        self.see(tokens, frames)

    def see(self, tokens: NDArray[np.int64], frames: Pixels | None) -> None:
        """What the last action led to, as in Policy.observe."""
        self._seen.append((tokens, frames))

    def keep(self, episodes: NDArray[np.int64]) -> None:
        """Go on with these episodes only, given by their place."""
        kept = [(t[episodes], None if f is None else f[episodes]) for t, f in self._seen]
        self._seen.clear()
        self._seen.extend(kept)

    def is_stuck(self) -> NDArray[np.bool_]:
        """(episodes,): which see something again."""
        tokens, frames = self._seen[-1]
        found = np.zeros(len(tokens), dtype=bool)
        for number in range(len(self._seen) - 1):
            then, shown = self._seen[number]
            if then.shape != tokens.shape:  # a prompt, or words of another length
                continue
            same = (then == tokens).all(axis=1)
            if frames is not None and shown is not None:
                change = np.abs(frames.astype(np.int16) - shown)
                same &= change.mean(axis=(1, 2)) <= ALIKE
            found |= same
        return found

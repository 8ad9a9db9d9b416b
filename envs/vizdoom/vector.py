"""Many episodes of My Way Home side by side: one worker process per core, each with some engines.

Frames and states are in memory that the workers share; only a byte for each step goes through a
pipe. A worker and its engines are pinned to one core.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
from ctypes import c_uint8
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from textrl.envs.vizdoom.engine import MAX_SEED, Engine, Frame, cores, pin_worker
from textrl.envs.vizdoom.env import RENDER_MODES, frame_space
from textrl.envs.vizdoom.rules import ACTIONS, FRAME_SHAPE, HORIZON, SIDE
from textrl.errors import UserError

INFOS = ("x", "y", "angle", "spot", "success", "tics")
STATE = np.dtype(
    [
        ("seed", np.int64),
        ("is_told", np.bool_),  # begin anew, or play this action
        ("action", np.int64),
        ("reward", np.float64),
        ("decisions", np.int64),
        ("x", np.float64),
        ("y", np.float64),
        ("angle", np.float64),
        ("spot", np.int64),
        ("success", np.bool_),
        ("tics", np.int64),
    ],
    align=True,
)
RESET, STEP, DONE = b"r", b"s", b""
PATIENCE = 5.0
"""Seconds that a worker has to end by itself."""


class MyWayHomeVectorEnv(gymnasium.vector.VectorEnv[Frame, NDArray[np.integer[Any]], NDArray[Any]]):
    """A batch of episodes. Finished ones wait for a reset: their steps change and earn nothing.

    reset takes the options `reset_mask`, which episodes to begin anew (all of them if not given),
    and `episode_seeds`, which episodes these are to be; else they follow from the seed, whatever
    the number of workers (None: one per core). The infos are arrays over the episodes; one more,
    `played`, tells whether this step was one of an episode still going.
    """

    metadata = {  # noqa: RUF012 (gymnasium declares it so)
        "render_modes": RENDER_MODES,
        "autoreset_mode": AutoresetMode.DISABLED,
    }

    def __init__(
        self,
        num_envs: int = 1,
        hard: bool = False,
        workers: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs, self.hard, self.render_mode = num_envs, hard, render_mode
        self.single_action_space = spaces.Discrete(len(ACTIONS))
        self.single_observation_space = frame_space()
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._paths: list[list[tuple[float, float]]] = [[] for _ in range(num_envs)]
        count = min(num_envs, workers or len(cores()) or os.cpu_count() or 1)
        # A fork starts at once; where it is not the custom (macOS, Windows) the workers import.
        context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        frames = context.RawArray(c_uint8, num_envs * SIDE * SIDE)
        states = context.RawArray(c_uint8, num_envs * STATE.itemsize)
        self._frames, self._states = _views(frames, states)
        self._workers: list[tuple[Any, Connection]] = []
        self.closed = False
        try:
            for number in range(count):
                ours, theirs = context.Pipe()
                job = (number, count, hard, frames, states, theirs, ours)
                process = context.Process(target=_work, args=job, daemon=True)
                process.start()
                theirs.close()  # so that the pipe ends with the worker
                self._workers.append((process, ours))
            self._await()
        except BaseException:
            self.close()
            raise

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        super().reset(seed=seed)
        options = options or {}
        fresh = np.asarray(options.get("reset_mask", np.ones(self.num_envs, dtype=bool)))
        seeds = self.np_random.integers(MAX_SEED, size=self.num_envs)
        self._states["seed"][fresh] = np.asarray(options.get("episode_seeds", seeds))[fresh]
        self._tell(RESET, fresh)
        for i in np.flatnonzero(fresh):
            self._paths[i].clear()
        self._note_paths(fresh)
        infos = {name: self._states[name].copy() for name in INFOS}
        return self._frames.copy(), {**infos, "episode_seed": self._states["seed"].copy()}

    def step(
        self, actions: NDArray[np.integer[Any]]
    ) -> tuple[Frame, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        if not self.action_space.contains(actions):
            raise ValueError(
                f"actions must be {self.num_envs} numbers 0..{len(ACTIONS) - 1}: {actions}"
            )
        terminated, truncated = self._flags()
        played = ~(terminated | truncated)
        self._states["action"] = actions
        self._tell(STEP, played)
        self._note_paths(played)
        rewards = np.where(played, self._states["reward"], 0.0)
        infos = {name: self._states[name].copy() for name in INFOS}
        return self._frames.copy(), rewards, *self._flags(), {**infos, "played": played}

    def render(self) -> tuple[Frame, ...] | None:
        if self.render_mode is None:
            return None
        from textrl.envs.vizdoom.render import draw_view  # only who looks on needs Pillow

        return tuple(
            draw_view(frame, path, angle)
            for frame, path, angle in zip(
                self._frames, self._paths, self._states["angle"].tolist(), strict=True
            )
        )

    def close_extras(self, **kwargs: Any) -> None:
        for _, pipe in self._workers:
            pipe.close()
        for process, _ in self._workers:
            process.join(PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()
        self._workers = []

    def _note_paths(self, moved: NDArray[np.bool_]) -> None:
        if self.render_mode is not None:
            for i in np.flatnonzero(moved):
                self._paths[i].append((self._states["x"][i].item(), self._states["y"][i].item()))

    def _flags(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which episodes are terminated, which truncated; never both."""
        terminated = self._states["success"].copy()
        return terminated, ~terminated & (self._states["decisions"] >= HORIZON)

    def _tell(self, order: bytes, which: NDArray[np.bool_]) -> None:
        """Have the workers do this to these episodes, and wait until they have."""
        if not self._workers:
            raise gymnasium.error.ClosedEnvironmentError("these environments were closed")
        self._states["is_told"] = which
        for _, pipe in self._workers:
            with contextlib.suppress(OSError):  # of a dead worker, of which we hear next
                pipe.send_bytes(order)
        self._await()

    def _await(self) -> None:
        try:
            for process, pipe in self._workers:
                try:
                    said = pipe.recv_bytes()
                except (EOFError, OSError):
                    process.join(PATIENCE)
                    said = (
                        f"a ViZDoom worker died (exit code {process.exitcode}): is there enough"
                        f" memory for {self.num_envs} engines?"
                    ).encode()
                if said != DONE:
                    raise UserError(said.decode())
        except BaseException:
            self.close()  # whatever is on its way in the pipes is not what comes next
            raise


def _views(frames: Any, states: Any) -> tuple[Frame, NDArray[Any]]:
    """The shared memory as arrays, (episodes, 80, 80) and (episodes,)."""
    pixels = np.frombuffer(frames, dtype=np.uint8).reshape(-1, *FRAME_SHAPE)
    return pixels, np.frombuffer(states, dtype=STATE)


def _work(
    number: int,
    workers: int,
    hard: bool,
    shared_frames: Any,
    shared_states: Any,
    pipe: Connection,
    parents_end: Connection,
) -> None:
    """A worker: plays every episode whose number is its own, modulo the number of workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    parents_end.close()  # so that the pipe ends with the parent
    frames, states = _views(shared_frames, shared_states)
    mine = range(number, len(states), workers)
    try:
        pin_worker(number)
        engines = {i: Engine(hard) for i in mine}
        pipe.send_bytes(DONE)
        while True:
            order = pipe.recv_bytes()
            for i in mine:
                if states["is_told"][i]:
                    _play(order, engines[i], frames[i], states[i])
            pipe.send_bytes(DONE)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        for engine in engines.values():
            engine.close()
    except UserError as error:
        with contextlib.suppress(OSError):
            pipe.send_bytes(str(error).encode())


def _play(order: bytes, engine: Engine, frame: Frame, state: Any) -> None:
    if order == RESET:
        engine.reset(int(state["seed"]))
    else:
        state["reward"] = engine.step(int(state["action"]))
    frame[:] = engine.frame
    for name in (*INFOS, "decisions"):
        state[name] = getattr(engine, name)

"""Film an episode of My Way Home: load -> play -> GIF."""

import argparse
from pathlib import Path
from typing import Any

from textrl.config.parser import make_parser
from textrl.errors import UserError, run_recipe

EXAMPLE = "textrl film runs/vizdoom --output episode.gif --hard"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser("Film what an agent sees, beside the map with its path.", EXAMPLE)
    parser.add_argument("checkpoint", help="folder or Hub id of the agent")
    parser.add_argument("--output", default="episode.gif", metavar="FILE", help="the film, a GIF")
    parser.add_argument("--hard", action="store_true", help="begin in the farthest room")
    parser.add_argument(
        "--greedy", action="store_true", help="take the best actions instead of sampling"
    )
    parser.add_argument(
        "--every", type=int, default=2, metavar="N", help="decisions between two frames of the film"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the episode and of the samples"
    )
    options = parser.parse_args()
    if Path(options.output).suffix != ".gif":
        raise UserError(f"--output must end in .gif, not {options.output!r}")
    if options.every < 1:
        raise UserError(f"--every must be at least 1, not {options.every}")
    film(options)


def film(options: argparse.Namespace) -> None:
    """Play an episode and write what was seen."""
    import numpy as np
    import transformers

    from textrl import Decoding, Policy, load_agent
    from textrl.envs.vizdoom.task import VizdoomTask
    from textrl.tasks.members import expect

    transformers.utils.logging.disable_progress_bar()
    model, task = load_agent(options.checkpoint, VizdoomTask.name)
    task = expect(task, VizdoomTask, "a film")
    from textrl.envs.vizdoom.env import MyWayHomeEnv
    from textrl.envs.vizdoom.render import save_film

    env = MyWayHomeEnv(hard=options.hard, render_mode="rgb_array")
    decoding = Decoding.of(model, sample=not options.greedy)
    policy = Policy(model, task.language, decoding, options.seed)
    frame, _ = env.reset(seed=options.seed)
    policy.begin(task.prompt(1), frame[None])
    pictures: list[Any] = [env.render()]  # never None in this mode
    score, is_over = 0.0, False
    while not is_over:
        action = policy.act()
        frame, reward, terminated, truncated, info = env.step(int(task.to_env_actions(action)[0]))
        score, is_over = score + float(reward), terminated or truncated
        policy.observe(np.full((1, 1), task.language.frame_id), frame[None])
        pictures.append(env.render())
    env.close()
    chosen = [*pictures[: -1 : options.every], pictures[-1]]
    save_film(Path(options.output), chosen)
    end = "found the armor" if info["success"] else "ran out of time"
    print(f"{end} after {len(pictures) - 1} decisions, score {score:.3f} -> {options.output}")


if __name__ == "__main__":
    run_recipe(main)

"""The agent that ships with textrl, and the program that makes it of a training run:

    textrl train --task wordle --preset full --output runs/wordle-full
    python -m textrl.envs.wordle.shipped runs/wordle-full COMMIT

COMMIT is that of the code with which the run was trained.
"""

import copy
import sys
from dataclasses import replace
from pathlib import Path

SHIPPED_AGENT = Path(__file__).parent / "agent"
MADE = """
## How it was made

With commit {commit} of textrl:

    textrl train --task wordle --preset {preset} --seed {seed}
    python -m textrl.envs.wordle.shipped runs/wordle {commit}

The weights are in half precision, and computed with in single precision. What only training needs
is left out.
"""


def ship(source: Path, commit: str, folder: Path = SHIPPED_AGENT) -> None:
    """Make a run's agent the one that ships: small, judged as it is then, with a card."""
    import torch

    from textrl.config.presets import load_config
    from textrl.config.train import CONFIG_FILE
    from textrl.model.build import OF_THE_WORLD
    from textrl.model.network import TextRLModel
    from textrl.sharing.checkpoint import CARD_FILE, load_checkpoint, save_checkpoint
    from textrl.sharing.publish import evaluate_checkpoint

    model, members = load_checkpoint(str(source))
    run = replace(load_config(source / CONFIG_FILE), output="", resume=False)
    shape = copy.deepcopy(model.config)
    shape.heads = tuple(head for head in shape.heads if head not in OF_THE_WORLD)
    small, weights = TextRLModel(shape), model.state_dict()
    small.load_state_dict({name: weights[name] for name in small.state_dict()})
    folder.mkdir(exist_ok=True)
    save_checkpoint(folder, torch.nn.Module.half(small), members, run)
    model, members = load_checkpoint(str(folder))
    print(evaluate_checkpoint(folder, members, model).describe(members))
    with (folder / CARD_FILE).open("a", encoding="utf-8") as card:
        card.write(MADE.format(commit=commit, preset=run.preset, seed=run.seed))


if __name__ == "__main__":
    ship(Path(sys.argv[1]), sys.argv[2])

"""The model card: the README.md of a checkpoint, for a stranger who finds it."""

from textrl.config import TrainConfig

ALGORITHM_NAMES = {
    "bc": "behaviour cloning",
    "filtered-bc": "behaviour cloning on the best episodes",
    "cql": "conservative Q-learning (CQL)",
    "ilql": "implicit language Q-learning (ILQL)",
}


def model_card(config: TrainConfig) -> str:
    """What it is, how it was trained, how to load and judge it."""
    algorithm = ALGORITHM_NAMES[config.algo]
    data = (
        f"`{config.data}`" if config.data else f"{config.episodes:,} simulated episodes of the task"
    )
    return f"""---
library_name: textrl
pipeline_tag: reinforcement-learning
tags: [textrl, offline-rl, {config.task}, {config.algo}]
---

# {config.task}, {config.algo}

An agent that plays {config.task}, trained offline by {algorithm} with textrl: a {config.backbone}
backbone of {config.layers} layers x {config.width} reads the history as tokens, heads on it choose
the next action token. Trained on {data} for {config.max_steps:,} steps of {config.batch_size}
episodes, seed {config.seed}; `training.yaml` has every setting, `metrics.jsonl` the curves.

```python
from textrl.checkpoint import load_model

model, task = load_model("path/or/name-of-this-repository")
```

`python recipes/evaluate.py PATH` plays it, and prints its scores beside those of reference players.
"""

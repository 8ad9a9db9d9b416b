"""The README.md of a dataset on the Hub, for a stranger who finds it."""

from collections.abc import Mapping

import numpy as np
from huggingface_hub import DatasetCardData
from numpy.typing import NDArray

from textrl.tasks.task import Task

COLUMNS = """\
| column | meaning |
| --- | --- |
| `tokens` | ids of the task's tokens: what was seen and what was done, in order |
| `is_action` | the player chose this token |
| `reward` | arrived because of this token |
| `observation` | class of the observation that followed this action; -1: none |
| `terminated`, `truncated` | how the episode ended; never both |
| `episode_return` | sum of the rewards |
| `behaviour` | who played |
"""


def dataset_card(
    task: Task, returns: Mapping[str, NDArray[np.float32]], name: str, how: str
) -> str:
    """Whose episodes these are, how they went, what a row is, how to load it.

    returns: of the episodes, by behaviour. how: they were made, a sentence or nothing.
    """
    everyone = np.concatenate(list(returns.values()))
    metadata = DatasetCardData(
        pretty_name=f"{task.name} episodes",
        task_categories=["reinforcement-learning"],
        size_categories=[_size_category(len(everyone))],
        tags=["textrl", "offline-rl", task.name],
        configs=[
            {"config_name": "default", "data_files": [{"split": "train", "path": "data/train-*"}]}
        ],
    )
    rows = "\n".join(
        f"| {who} | {len(of):,} | {len(of) / len(everyone):.1%} | {of.mean():.3f} |"
        for who, of in [*returns.items(), ("all", everyone)]
    )
    described = task.describe_data(returns).replace("\n", "\n    ")
    return f"""---
{metadata.to_yaml()}
---

# {len(everyone):,} episodes of {task.name}

{task.summary()}

Logged episodes to learn from offline. {how}

| behaviour | episodes | share | mean return |
| --- | ---: | ---: | ---: |
{rows}

    {described}

## Use it

With textrl installed (`pip install offline-textrl`):

    textrl train --task {task.name} --data {name}

```python
from textrl.data.dataset import load_episodes

rows = load_episodes("{name}")  # or datasets.load_dataset("{name}", split="train")
```

One episode is one row:

{COLUMNS}
`task.json` has the task's settings, from which its tokens follow.

## Limits

The episodes are as good as their players, and show only the situations that these got into.
"""


def _size_category(rows: int) -> str:
    """As the Hub names sizes."""
    names = ["n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M"]
    return names[min(max(len(str(rows)) - 3, 0), len(names) - 1)]

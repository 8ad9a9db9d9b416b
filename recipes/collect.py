"""Make a dataset: parse -> task -> play or read games -> write -> summary. Or check one."""

from dataclasses import replace
from pathlib import Path

import transformers

from envs.tasks import make_task
from envs.text.check import check_conversations
from envs.text.task import TextTask, load_language
from envs.twenty.conversations import write_conversations
from envs.twenty.task import TwentyTask
from envs.vizdoom.actor import load_actor
from envs.vizdoom.task import VizdoomTask
from envs.wordle.task import WordleTask
from textrl.collect import refuse_existing
from textrl.dataset import returns_by, returns_by_behaviour
from textrl.errors import UserError, run_recipe
from textrl.language_model import lm_folder
from textrl.parser import make_parser
from textrl.publish import COLLECTION_FILE, how_to_go_on, open_dataset_repo, push_dataset
from textrl.report import dataset_table, write_json
from textrl.settings import read_preset

PRESETS = Path(__file__).parent / "configs"
EXAMPLE = "python recipes/collect.py --task wordle --episodes 1000000 --output data/wordle-1m"
TWEETS_HOW = (
    "Games that people shared on Twitter: the colours are theirs, the letters were drawn, row by"
    " row, from the words that give those colours."
)


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Make a dataset of episodes to train on, or check logged conversations.", EXAMPLE
    )
    parser.add_argument(
        "--check",
        metavar="FILE",
        help="look through conversations for --task text instead: what is wrong, what they become",
    )
    parser.add_argument(
        "--backbone",
        metavar="MODEL",
        help="check: the language model (folder or Hub id) whose tokens they become",
    )
    parser.add_argument(
        "--context", type=int, default=512, metavar="N", help="check: the longest history in tokens"
    )
    parser.add_argument(
        "--on-bad-rows",
        default="refuse",
        choices=("refuse", "skip"),
        help="check: whether bad rows are an error",
    )
    parser.add_argument("--task", help="which task's episodes to make")
    parser.add_argument(
        "--episodes", type=int, metavar="N", help="how many (default: as the quick preset has)"
    )
    parser.add_argument("--output", metavar="DIR", help="the new dataset's folder")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="start of every random number"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one per core)"
    )
    parser.add_argument(
        "--words", default="paper", help="wordle: paper (236 answers), full, or a file"
    )
    parser.add_argument("--layout", default="default", help="gridworld: default, or a file")
    parser.add_argument(
        "--tweets", metavar="CSV", help="wordle: read games that people shared instead"
    )
    parser.add_argument(
        "--conversations", metavar="FILE", help="twenty: write them as chat messages (JSONL) too"
    )
    parser.add_argument(
        "--a2c",
        metavar="CHECKPOINT",
        help="vizdoom: a folder of recipes/train_a2c.py, to play in place of the medium player",
    )
    parser.add_argument(
        "--push-to-hub", default="", metavar="USER/NAME", help="publish it on the Hugging Face Hub"
    )
    parser.add_argument(
        "--private", action="store_true", help="make the repository one that only you can see"
    )
    options = parser.parse_args()
    for name, least in (("episodes", 1), ("workers", 1), ("seed", 0), ("context", 2)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise UserError(f"--{name} must be at least {least}, not {value}")

    if options.check:
        transformers.utils.logging.disable_progress_bar()
        language = load_language(lm_folder(options.backbone)) if options.backbone else None
        skips_bad = options.on_bad_rows == "skip"
        check_conversations(options.check, language, options.context, skips_bad)
        return
    for name in ("task", "output"):
        if not getattr(options, name):
            raise UserError(f"--{name} is missing (see --help)")
    if options.task == TextTask.name:
        raise UserError("--task text has nobody to play it: its conversations are your own")
    preset = read_preset(PRESETS, options.task, "quick")
    task = make_task(replace(preset, words=options.words, layout=options.layout))
    if options.conversations and not isinstance(task, TwentyTask):
        raise UserError("--conversations are of twenty questions: choose --task twenty")
    if options.a2c and not isinstance(task, VizdoomTask):
        raise UserError("--a2c plays My Way Home: choose --task vizdoom")
    folder = Path(options.output)
    for path in (folder, *([Path(options.conversations)] if options.conversations else [])):
        refuse_existing(path)
    actor = load_actor(Path(options.a2c)) if options.a2c else None
    if options.push_to_hub:
        open_dataset_repo(options.push_to_hub, options.private)
    if options.tweets:
        how = TWEETS_HOW
        if not isinstance(task, WordleTask):
            raise UserError("--tweets holds games of wordle: choose --task wordle")
        rows = task.collect_tweets(Path(options.tweets), options.seed, folder, options.workers)
    else:
        how = f"Simulated by the players that the task brings along, seed {options.seed}."
        episodes = options.episodes or preset.episodes
        if actor is not None and isinstance(task, VizdoomTask):
            how += (
                f" The a2c policy had learned for {actor.steps:,} steps and found the armor in"
                f" {actor.success:.1%} of {actor.episodes} episodes then."
            )
            rows = task.collect(episodes, options.seed, folder, options.workers, actor)
        else:
            rows = task.collect(episodes, options.seed, folder, options.workers)

    write_json(folder / COLLECTION_FILE, {"how": how})
    if options.conversations:
        write_conversations(rows, task.language, Path(options.conversations))
    returns = returns_by_behaviour(rows)
    print(dataset_table(returns))
    print(task.describe_data(returns))
    if "start" in rows.features:
        print(dataset_table(returns_by(rows, "start"), "start"))
    print(
        f"{len(rows):,} episodes in {folder}: recipes/train.py --task {task.name} --data {folder}"
    )
    if options.push_to_hub:
        try:
            print(f"published as {push_dataset(folder, options.push_to_hub, task)}")
        except UserError as error:
            raise UserError(f"{error}; {how_to_go_on(folder, options.push_to_hub)}") from error


if __name__ == "__main__":
    run_recipe(main)

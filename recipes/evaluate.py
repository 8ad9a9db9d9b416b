"""Judge a checkpoint: load -> play -> compare -> report."""

import time
from pathlib import Path
from typing import Any

import transformers

from envs.tasks import task_of_checkpoint
from textrl.checkpoint import describe_task, load_model
from textrl.config import make_parser
from textrl.errors import UserError, run_recipe
from textrl.evaluation import Result, evaluate
from textrl.model import TextRLModel
from textrl.policy import Decoding
from textrl.report import paired_difference, score_table, write_json
from textrl.task import Task

EXAMPLE = "python recipes/evaluate.py runs/wordle --beta 8 --json evaluation.json"
SAMPLED_ROUNDS = 4  # a sample differs from game to game, so each episode is played this often


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Play a trained agent, greedily and by sampling, beside reference players.", EXAMPLE
    )
    parser.add_argument("checkpoint", help="folder or Hub id of the agent")
    parser.add_argument("--episodes", type=int, help="how many to play (default: each answer once)")
    parser.add_argument(
        "--beta", type=float, help="weight of Q - V against log pi (default: as trained)"
    )
    parser.add_argument("--seed", type=int, default=0, help="start of every random number")
    parser.add_argument("--against", help="another checkpoint of the same task to compare with")
    parser.add_argument("--json", metavar="FILE", help="write everything to this file too")
    options = parser.parse_args()
    if options.episodes is not None and options.episodes < 1:
        raise UserError(f"--episodes must be at least 1, not {options.episodes}")
    transformers.utils.logging.disable_progress_bar()

    model, saved = load_model(options.checkpoint)
    task = task_of_checkpoint(saved)
    episodes = options.episodes or task.full_evaluation()
    results, seconds = play_both(task, model, episodes, options.beta, options.seed)
    references = task.references(options.seed)

    print(
        f"{options.checkpoint}: {task.name}, {episodes} episodes, beta {results[0].decoding.beta:g}"
    )
    scores = {f"agent, {result.decoding.name}": result.estimate for result in results}
    print(score_table(scores, references))
    for result in results:
        print(f"\n{result.decoding.name}: {task.describe(result.metrics)}")
    report = {
        "task": task.name,
        "checkpoint": options.checkpoint,
        "beta": results[0].decoding.beta,
        "seed": options.seed,
        **results[0].to_json(),  # greedy is the headline
        "decoding": results[0].decoding.name,
        "decodings": {result.decoding.name: result.to_json() for result in results},
        "references": {name: reference.mean for name, reference in references.items()},
        "references_stderr": {name: reference.stderr for name, reference in references.items()},
        "games_per_second": sum(len(result.scores) for result in results) / seconds,
    }
    if options.against:
        report["against"] = compare(options.against, task, results, episodes, options.seed)
    if options.json:
        write_json(Path(options.json), report)


def play_both(
    task: Task, model: TextRLModel, episodes: int, beta: float | None, seed: int
) -> tuple[list[Result], float]:
    """Results of greedy and of sampled play, and the seconds they took."""
    beta = model.config.beta if beta is None else beta
    began = time.perf_counter()
    greedy = evaluate(task, model, Decoding(beta, sample=False), episodes, seed)
    sampled = evaluate(task, model, Decoding(beta, sample=True), episodes * SAMPLED_ROUNDS, seed)
    return [greedy, sampled], time.perf_counter() - began


def compare(
    other: str, task: Task, results: list[Result], episodes: int, seed: int
) -> dict[str, Any]:
    """How much better this agent is than another, each at its own beta, episode by episode."""
    model, saved = load_model(other)
    if saved != describe_task(task):
        raise UserError(f"{other!r} plays another task or word list: the two cannot be compared")
    found = {}
    print(f"\nbetter than {other} by")
    for ours, theirs in zip(results, play_both(task, model, episodes, None, seed)[0], strict=True):
        difference = paired_difference(ours.scores, theirs.scores, episodes)
        low, high = difference.interval
        print(f"  {ours.decoding.name}: {difference.mean:+.3f} (95%: {low:+.3f} to {high:+.3f})")
        found[ours.decoding.name] = {"difference": difference.mean, "interval_95": [low, high]}
    return {"checkpoint": other, **found}


if __name__ == "__main__":
    run_recipe(main)

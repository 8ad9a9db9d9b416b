"""Judge a checkpoint: load -> play -> compare -> report."""

import argparse
import math
from pathlib import Path
from typing import Any

from textrl.config.parser import make_parser
from textrl.config.registry import TASKS, follow
from textrl.errors import UserError, run_recipe

OF_ONE_TASK = ("beta", "betas", "candidates", "temperature", "against", "data", "offline")
EXAMPLE = "textrl evaluate runs/wordle --beta 8 --json evaluation.json"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Play a trained agent, greedily and by sampling, and compare it with"
        " reference players. An agent of logged conversations is judged on"
        " conversations that it has not seen.",
        EXAMPLE,
    )
    parser.add_argument("checkpoint", help="folder or Hub id of the agent")
    parser.add_argument(
        "--task",
        help="which task, for an agent of several (default: each of them), or"
        " module:CLASS of a task of your own",
    )
    parser.add_argument(
        "--episodes", type=int, help="number of episodes (default: a complete evaluation)"
    )
    parser.add_argument(
        "--beta", type=float, help="weight of Q - V against log pi (default: as trained)"
    )
    parser.add_argument(
        "--candidates",
        type=int,
        metavar="N",
        help="whole actions compared before one is chosen; 1: token by token (default: as trained)",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        metavar="X",
        help="temperature of sampling: below 1, likely actions become likelier (default: as"
        " trained)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    parser.add_argument(
        "--against",
        help="another checkpoint of the same task to compare with; text: or a language model as it"
        " is, such as the one that the agent was trained from",
    )
    add_offline(parser)
    parser.add_argument(
        "--data",
        help="text: file of conversations to judge by (default: those that were held out)",
    )
    parser.add_argument(
        "--base", help="where an adapter's language model is, if not where it was in training"
    )
    parser.add_argument("--json", metavar="FILE", help="write everything to this file too")
    options = parser.parse_args()
    refuse_mistakes(options)
    report = judged(options)
    if options.json:
        from textrl.evaluation.report import write_json

        write_json(Path(options.json), report)


def refuse_mistakes(options: argparse.Namespace) -> None:
    """Numbers that nothing can be done with, before anything is loaded."""
    for name in ("episodes", "candidates", "fit_episodes"):
        value = getattr(options, name)
        if value is not None and value < 1:
            shown = name.replace("_", "-")
            raise UserError(f"--{shown} must be at least 1, not {value}")
    if options.temperature is not None and not 0 < options.temperature < math.inf:
        raise UserError(f"--temperature must be above 0, not {options.temperature:g}")


def add_offline(parser: argparse.ArgumentParser) -> None:
    """What estimating from logged episodes asks for."""
    parser.add_argument(
        "--offline",
        action=argparse.BooleanOptionalAction,
        help="estimate from logged episodes what the agent would earn, and say"
        " whether that is more than the data earned (default: if nothing can be"
        " played)",
    )
    parser.add_argument(
        "--betas",
        metavar="LIST",
        help="offline: estimate the agent at each of these too, such as 0,1,4, and name the best",
    )
    parser.add_argument(
        "--fit-episodes",
        type=int,
        default=1000,
        metavar="N",
        help="offline: number of episodes to fit the estimate's values on",
    )


def judged(options: argparse.Namespace) -> dict[str, Any]:
    """Judge the agent as the command line says, print how it did, and give it for programs."""
    import transformers

    from textrl.evaluation.judge import How, compare, judge, judge_run
    from textrl.model.build import model_of_member
    from textrl.sharing.checkpoint import (
        checkpoint_folder,
        load_checkpoint,
        weights_digest,
    )
    from textrl.tasks.task import LoggedTask

    transformers.utils.logging.disable_progress_bar()
    name = follow(TASKS, options.task).name if options.task else None
    model, members = load_checkpoint(options.checkpoint, options.base)
    chosen = options.candidates, options.temperature
    how = How(options.episodes, options.beta, options.seed, *chosen)
    common = {
        "checkpoint": options.checkpoint,
        "weights": weights_digest(checkpoint_folder(options.checkpoint)),
    }
    if name is None and len(members.tasks) > 1:
        for each in OF_ONE_TASK:
            if getattr(options, each) is not None:
                raise UserError(f"--{each} is about one task: say which with --task")
        judgement = judge_run(members, model, how)
        print(f"{options.checkpoint}: {members.name}\n\n{judgement.describe(members)}")
        return {"task": members.name, **common, **judgement.to_json()}

    if name not in (None, *members.tasks):
        raise UserError(f"{options.checkpoint!r} plays {members.name}, not {name}")
    number, task = members.one(name)
    model = model_of_member(model, number)
    if options.data:
        task = task.with_data(options.data)
    other = rival(options, task, model) if options.against else None
    judgement = judge(task, model, how)
    beta = model.config.beta if options.beta is None else options.beta
    print(f"{options.checkpoint}: {task.name}, beta {beta:g}")
    print(judgement.describe(task))
    report = {"task": task.name, **common, **judgement.to_json()}
    if other is not None:
        told, difference = compare(task, judgement, options.against, other, how)
        print(f"\n{told}")
        report["against"] = {"checkpoint": options.against, **difference}
    is_log = isinstance(task, LoggedTask)
    if options.offline is None and is_log and is_untold(options, model):
        print("\nno estimate of what it would earn: it compares whole candidates; --candidates 1")
    elif options.offline or (options.offline is None and is_log):
        doubts = judgement.warnings if is_log else []
        report["offline"] = offline_verdict(options, task, model, other, doubts)
    return report


def is_untold(options: argparse.Namespace, model: Any) -> bool:
    """Whether the agent acts in a way of which logs cannot tell what it would earn."""
    from textrl.acting.decoding import Decoding

    decoding = Decoding.of(model, True, options.beta, options.candidates)
    return decoding.candidates_of(model) > 1


def rival(options: argparse.Namespace, task: Any, model: Any) -> Any:
    """The model of --against: an agent of the same task or, of texts, any language model."""
    from textrl.data.download import fetch
    from textrl.data.task_file import TASK_FILE
    from textrl.envs.text.task import load_language
    from textrl.evaluation.judge import check_comparable
    from textrl.model.build import lm_as_agent
    from textrl.sharing.checkpoint import TOKENIZER_FILES, load_agent

    folder = fetch(options.against, "model", [TASK_FILE, "config.json", *TOKENIZER_FILES])
    if model.config.lm and not (folder / TASK_FILE).is_file():
        theirs, ours = (each.tokenizer() for each in (load_language(folder), task.language))
        if theirs.get_vocab() != ours.get_vocab():
            raise UserError(f"{options.against!r} has other tokens: the two cannot be compared")
        return lm_as_agent(options.against, model.config.context)
    other, theirs = load_agent(options.against, task.name)
    check_comparable(task, options.against, theirs, other)
    return other


def offline_verdict(
    options: argparse.Namespace, task: Any, model: Any, other: Any, doubts: list[str]
) -> dict[str, Any]:
    """Print what the agent would earn by what was logged, and give it for programs."""
    from textrl.acting.decoding import Decoding
    from textrl.config.presets import load_config
    from textrl.config.train import CONFIG_FILE
    from textrl.data.download import fetch
    from textrl.evaluation.verdict import logs_of, reach_verdict

    settings = fetch(options.checkpoint, "model", [CONFIG_FILE]) / CONFIG_FILE
    member = load_config(settings).members.get(task.name) if settings.is_file() else None
    logs = logs_of(task, member, options.fit_episodes, options.episodes)
    decoding = Decoding.of(model, True, options.beta, options.candidates, options.temperature)
    rivals = {options.against: other} if other is not None else {}
    doubts = [each.removeprefix("warning: ") for each in doubts if "constant" in each]
    betas = read_betas(options.betas) if options.betas else []
    verdict = reach_verdict(logs, model, rivals, decoding, doubts, betas)
    print(f"\n{verdict.describe()}")
    return verdict.to_json()


def read_betas(text: str) -> list[float]:
    """The numbers of a list with commas."""
    try:
        betas = [float(each) for each in text.split(",")]
    except ValueError:
        betas = [-1.0]
    if min(betas) < 0:
        raise UserError(f"--betas must be numbers of at least 0, separated by commas, not {text!r}")
    return betas


if __name__ == "__main__":
    run_recipe(main)

"""A training step by operator: where its time goes."""

from dataclasses import dataclass, replace

import transformers
from torch.profiler import ProfilerActivity, profile

from textrl.recipes.measuring.speed import BISIMULATION_WEIGHT
from textrl.recipes.measuring.steps import Bench, training_steps

BETWEEN = "Python between operators"


@dataclass(frozen=True)
class Operator:
    """What one operator costs in a step, without those that it calls."""

    name: str
    calls: float
    milliseconds: float
    share: float  # of the step
    gigaflops: float | None  # a second, where the profiler knows the arithmetic


def profile_step(name: str, preset: str, backbone: str, compares: bool) -> list[Operator]:
    """The operators of a step, the costliest first; compares: with the bisimulation loss.

    Milliseconds are of the wall clock, profiling included: what counts is their shares.
    """
    transformers.utils.logging.disable_progress_bar()
    bench = Bench.of(name, preset, backbone)
    run = bench.run
    if compares:
        run = replace(run, bisimulation=replace(run.bisimulation, weight=BISIMULATION_WEIGHT))
    steps = bench.steps(run)
    _, train = training_steps(bench.members, run, steps)
    train()  # warms up
    with profile(activities=[ProfilerActivity.CPU], with_flops=True) as seen:
        train()
    count = len(steps)
    events = [event for event in seen.key_averages() if event.self_cpu_time_total]
    began = min(event.time_range.start for event in seen.events())
    ended = max(event.time_range.end for event in seen.events())
    whole = (ended - began) / 1e3 / count
    found = [
        Operator(
            name=event.key,
            calls=event.count / count,
            milliseconds=event.self_cpu_time_total / 1e3 / count,
            share=event.self_cpu_time_total / 1e3 / count / whole,
            gigaflops=event.flops / event.self_cpu_time_total / 1e3 if event.flops else None,
        )
        for event in events
    ]
    rest = whole - sum(each.milliseconds for each in found)
    found.append(Operator(BETWEEN, 1, rest, rest / whole, None))
    return sorted(found, key=lambda each: -each.milliseconds)

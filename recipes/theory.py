"""Check the paper's theory on small POMDPs: measure -> over seeds -> JSON -> figures."""

from importlib.util import find_spec

from textrl.config.parser import make_parser
from textrl.errors import UserError, run_recipe
from textrl.recipes.reproducing.experiments import THEORY_PARTS

EXAMPLE = "textrl theory --seeds 20 --output results"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser("Check the paper's theorems and lemma 1 on small POMDPs.", EXAMPLE)
    parser.add_argument("--only", choices=THEORY_PARTS, help="one part (default: all)")
    parser.add_argument(
        "--seeds", type=int, default=20, metavar="N", help="number of datasets of each size"
    )
    parser.add_argument("--max-horizon", type=int, default=8, metavar="N", help="longest horizon")
    parser.add_argument("--output", default="results", metavar="DIR", help="folder for the results")
    parser.add_argument(
        "--json", metavar="FILE", help="file for the numbers (default: OUTPUT/theory.json)"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at once")
    parser.add_argument(
        "--agent", metavar="CHECKPOINT", help="cluster this agent's representations instead"
    )
    parser.add_argument(
        "--histories",
        type=int,
        default=3000,
        metavar="N",
        help="agent: number of histories of the data",
    )
    options = parser.parse_args()
    for name in ("seeds", "jobs"):
        if getattr(options, name) < 1:
            raise UserError(f"--{name} must be at least 1, not {getattr(options, name)}")
    if not 3 <= options.max_horizon <= 9:
        raise UserError(f"--max-horizon must be 3 to 9, not {options.max_horizon}")
    if options.histories < 10:
        raise UserError(f"--histories must be at least 10, not {options.histories}")
    if options.agent and options.only:
        raise UserError("--agent is a part of its own: leave out --only")
    for package in ("scipy", "matplotlib"):
        if find_spec(package) is None:
            raise UserError(f"the theory needs {package}: pip install 'offline-textrl[theory]'")
    from textrl.recipes.measuring.theory import measure_theory

    measure_theory(options)


if __name__ == "__main__":
    run_recipe(main)

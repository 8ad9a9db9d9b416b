"""Look at data and runs on a local page: load -> browse, ask agents, compare, curves."""

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from textrl.config.parser import make_parser
from textrl.config.registry import TASKS, follow
from textrl.errors import UserError, run_recipe

EXAMPLE = """textrl view talks.jsonl
  textrl view runs/ilql runs/bc
  textrl view runs/ilql --data talks.jsonl"""


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Look at data and runs on a local page: browse conversations or"
        " episodes, see an agent's policy, Q and V at each token, ask agents"
        " side by side, and see the curves of runs.",
        EXAMPLE,
    )
    parser.add_argument(
        "names",
        nargs="+",
        metavar="DATA_OR_RUN",
        help="a file or folder of data, or folders or Hub ids of agents",
    )
    parser.add_argument("--data", help="what to browse, if not what the agent learned from")
    parser.add_argument(
        "--task",
        help="which task, for agents of several, or module:CLASS of a task of your own",
    )
    parser.add_argument(
        "--base", help="where an adapter's language model is, if not where it was in training"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=7861, help="port to listen on")
    options = parser.parse_args()
    if find_spec("gradio") is None:
        raise UserError("the page needs gradio: pip install 'offline-textrl[play]'")
    view(options)


def view(options: argparse.Namespace) -> None:
    """Load what is named and serve the page until Ctrl-C."""
    import transformers

    from textrl.recipes.viewing.load import load_exhibition
    from textrl.recipes.viewing.web import make_app
    from textrl.sharing.page import check_address, serve

    transformers.utils.logging.disable_progress_bar()
    check_address(options.host, options.port)
    task: Any = follow(TASKS, options.task).name if options.task else None
    shown = load_exhibition(options.names, options.data, task, options.base)
    serve(make_app(shown), f"textrl view {Path(options.names[0]).name}", options.host, options.port)


if __name__ == "__main__":
    run_recipe(main)

"""Merge an adapter into its language model: a plain checkpoint that loads without peft."""

import shutil
from pathlib import Path

from textrl.config.parser import make_parser
from textrl.errors import UserError, run_recipe

EXAMPLE = "textrl merge runs/text --output runs/text-merged"
NOT_COPIED = ("config.json", "model.safetensors", "evaluation.json")
"""What is written anew, and the report, which is of other weights."""


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Merge an adapter into its language model. What only training needs (the world model of the"
        " bisimulation loss) is left out.",
        EXAMPLE,
    )
    parser.add_argument("adapter", help="folder or Hub id of an agent trained with --lora-rank")
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the checkpoint")
    parser.add_argument(
        "--base", help="where its language model is, if not where it was in training"
    )
    options = parser.parse_args()
    output = Path(options.output)
    if output.exists():
        raise UserError(f"{options.output!r} exists already: choose another --output")
    merge(options.adapter, options.base, output)
    size = (output / "model.safetensors").stat().st_size
    print(f"{options.output}: {size / 1e6:,.0f} MB, loads without peft and without its base")


def merge(adapter: str, base: str | None, output: Path) -> None:
    """Write the merged checkpoint, which appears whole or not at all."""
    import transformers

    from textrl.data.download import fetch
    from textrl.data.files import scratch_folder
    from textrl.sharing.checkpoint import LOADED_FILES, load_model
    from textrl.sharing.publish import CHECKPOINT_FILES

    transformers.utils.logging.disable_progress_bar()
    model = load_model(adapter, base)
    model.merge_adapter()
    folder = fetch(adapter, "model", [*LOADED_FILES, *CHECKPOINT_FILES])
    with scratch_folder(output) as scratch:
        for pattern in CHECKPOINT_FILES:
            for path in folder.glob(pattern):
                if path.parent == folder and path.name not in NOT_COPIED:
                    shutil.copy(path, scratch)
        model.save_pretrained(scratch)
        scratch.rename(output)


if __name__ == "__main__":
    run_recipe(main)

"""What the Q heads and LoRA cost on a language model: parameters, memory, time of a step."""

from textrl.config.parser import make_parser
from textrl.errors import run_recipe

EXAMPLE = "python recipes/benchmark_heads.py --episodes 2 --tokens 256"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Measure what the Q heads and LoRA cost on a language model of GPT-2 small's size, with"
        " random weights, and count what the heads would cost on larger ones.",
        EXAMPLE,
    )
    parser.add_argument("--episodes", type=int, default=2, help="conversations per step")
    parser.add_argument(
        "--tokens", type=int, default=256, help="tokens per conversation, half of them the agent's"
    )
    options = parser.parse_args()
    from textrl.recipes.measuring.heads import count_and_measure

    count_and_measure(options.episodes, options.tokens)


if __name__ == "__main__":
    run_recipe(main)

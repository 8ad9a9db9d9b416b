"""The environments' names for gymnasium, which has them once this module is imported.

gymnasium imports it itself where a name says so: make("textrl.envs.registration:textrl/Wordle-v0").
"""

from gymnasium.envs.registration import register

ENVIRONMENTS = {
    "SwitchGrid-v0": ("gridworld.env:SwitchGridEnv", "gridworld.env:SwitchGridVectorEnv"),
    "TMaze-v0": ("tmaze.env:TMazeEnv", "tmaze.env:TMazeVectorEnv"),
    "TwentyQuestions-v0": ("twenty.env:TwentyQuestionsEnv", "twenty.env:TwentyQuestionsVectorEnv"),
    "Wordle-v0": ("wordle.env:WordleEnv", "wordle.env:WordleVectorEnv"),
    "MyWayHome-v0": ("vizdoom.env:MyWayHomeEnv", "vizdoom.vector:MyWayHomeVectorEnv"),
}
"""One environment, and many side by side."""

for name, (single, vector) in ENVIRONMENTS.items():
    register(
        id=f"textrl/{name}",
        entry_point=f"{__package__}.{single}",
        vector_entry_point=f"{__package__}.{vector}",
    )

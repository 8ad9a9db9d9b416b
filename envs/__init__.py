"""Gymnasium environments, one folder per task; importing this package registers them."""

import gymnasium

gymnasium.register(
    id="textrl/SwitchGrid-v0",
    entry_point="envs.gridworld.env:SwitchGridEnv",
    vector_entry_point="envs.gridworld.env:SwitchGridVectorEnv",
)
gymnasium.register(
    id="textrl/TwentyQuestions-v0",
    entry_point="envs.twenty.env:TwentyQuestionsEnv",
    vector_entry_point="envs.twenty.env:TwentyQuestionsVectorEnv",
)
gymnasium.register(
    id="textrl/Wordle-v0",
    entry_point="envs.wordle.env:WordleEnv",
    vector_entry_point="envs.wordle.env:WordleVectorEnv",
)
gymnasium.register(
    id="textrl/MyWayHome-v0",
    entry_point="envs.vizdoom.env:MyWayHomeEnv",
    vector_entry_point="envs.vizdoom.vector:MyWayHomeVectorEnv",
)

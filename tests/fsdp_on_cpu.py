"""recipes/train.py with FSDP on the CPU, which accelerate does for GPUs only: for tests."""

import os

import torch
from accelerate import DistributedType
from accelerate.state import PartialState

from textrl.errors import run_recipe
from textrl.recipes.train import main

# All else is accelerate's and torch's own code: the processes take gloo for what joins GPUs.
PartialState._prepare_backend = lambda *_: ("gloo", DistributedType.MULTI_GPU)
os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
torch.distributed.init_process_group("gloo")
run_recipe(main)

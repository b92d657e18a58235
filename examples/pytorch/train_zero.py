# SPDX-License-Identifier: Apache-2.0
"""Trains a language model of the size of GPT-2's smallest on all GPUs with DeepSpeed's ZeRO, on
random text. Needs DeepSpeed; docs/how-to/several-gpus.md says how to install it.

Nothing here knows of gpemu: torchrun starts a process for each GPU.

    gpemu run --gpu A100-SXM4-40GB:4 -- torchrun --standalone --nproc-per-node 4 train_zero.py
"""

import os
import time

import deepspeed
import torch
import torch.distributed as dist

from language_model import loss_of, make_model, make_parser


def start_engine(model, arguments):
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1)
    settings = {
        "train_micro_batch_size_per_gpu": arguments.batch,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": arguments.stage, "overlap_comm": True},
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": True},
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    return engine


def train_step(engine, arguments):
    engine.backward(loss_of(engine, engine.device, arguments))
    engine.step()


def main():
    parser = make_parser(__doc__.splitlines()[0])
    stages = "1 divides the optimizer's state, 2 also gradients, 3 parameters, too"
    parser.add_argument("--stage", type=int, default=3, choices=range(4), help=stages)
    arguments = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    deepspeed.init_distributed("nccl")
    engine = start_engine(make_model(arguments), arguments)
    train_step(engine, arguments)
    torch.cuda.synchronize()
    dist.barrier()
    start = time.monotonic()
    for _ in range(arguments.steps):
        train_step(engine, arguments)
    torch.cuda.synchronize()
    seconds = (time.monotonic() - start) / max(arguments.steps, 1)
    if arguments.checkpoint:
        engine.save_checkpoint(arguments.checkpoint)
        engine.load_checkpoint(arguments.checkpoint)
    if dist.get_rank() == 0:
        tokens = arguments.batch * arguments.length * dist.get_world_size()
        memory = torch.cuda.max_memory_allocated() / 2**20
        print(f"{dist.get_world_size()} ranks, ZeRO stage {arguments.stage}, {memory:.0f} MiB each")
        print(f"{seconds * 1000:.1f} ms per step, {tokens / seconds:.0f} tokens/s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

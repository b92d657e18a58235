# SPDX-License-Identifier: Apache-2.0
"""Measures training steps of torchvision's models: time, memory, the first batch too many; or marks
their phases for records of operations.

Nothing here knows of gpemu: on a real GPU the same program measures that GPU. It does what GPEmu's
profilers did (VLDB 2025): 3 x 224 x 224 images in FP32, SGD with momentum and weight decay one
tensor at a time, gradients that are zeroed and kept, TF32 where the GPU has it.

    gpemu run --gpu V100-PCIE-32GB --clock gpu-only -- python measure_models.py time resnet50:32

Prints one line of JSON per JOB.
"""

import argparse
import json
import warnings

import torch
import torchvision

CLASSES = 100  # of the targets; the models keep their 1000.
MIB = 2**20
LARGEST_BATCH = 256  # that GPEmu's profilers tried


class Training:
    """A model with its optimizer, made on the GPU."""

    def __init__(self, name):
        with torch.device("cuda"):
            self.model = torchvision.models.get_model(name).train()
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, foreach=False
        )

    @staticmethod
    def data(batch):
        images = torch.randn(batch, 3, 224, 224, device="cuda")
        return images, torch.randint(0, CLASSES, (batch,), device="cuda")

    def forward(self, images):
        return self.model(images)

    def backward(self, outputs, targets):
        logits = getattr(outputs, "logits", outputs)
        loss = torch.nn.functional.cross_entropy(logits, targets)
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.optimizer.step()

    def steps(self, images, targets, count=3):
        """Makes some steps. Outputs stay until the next step has its own, as in the profilers:
        GoogLeNet's have tensors that no backward pass frees."""
        for _ in range(count):
            outputs = self.forward(images)
            self.backward(outputs, targets)
        return outputs


def measure_time(name, batch, repetitions=10):
    """Forward, and backward with the optimizer, with a wait in between: the mean without the two
    longest of the repetitions."""
    training = Training(name)
    images, targets = training.data(batch)
    phases = []
    for _ in range(repetitions):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        events[0].record()
        outputs = training.forward(images)
        events[1].record()
        torch.cuda.synchronize()
        events[2].record()
        training.backward(outputs, targets)
        events[3].record()
        torch.cuda.synchronize()
        phases.append((events[0].elapsed_time(events[1]), events[2].elapsed_time(events[3])))

    def mean(values):
        kept = sorted(values)[:-2]
        return sum(kept) / len(kept)

    forward, backward = zip(*phases)
    return {"forward_ms": mean(forward), "backward_ms": mean(backward)}


def measure_memory(name, batch):
    """The most that is allocated when a module begins or ends, forward and backward, over three
    steps; beside it the allocator's own maximum, and what is left between steps."""
    training = Training(name)
    images, targets = training.data(batch)
    torch.cuda.reset_peak_memory_stats()
    seen = []

    def note(*_):
        seen.append(torch.cuda.memory_allocated())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The older kind of backward hook is what was used.
        for module in training.model.modules():
            module.register_forward_pre_hook(note)
            module.register_forward_hook(note)
            module.register_backward_hook(note)
        outputs = training.steps(images, targets)
    persistent = torch.cuda.memory_allocated()
    del outputs
    return {
        "peak_mib": max(seen) / MIB,
        "allocator_peak_mib": torch.cuda.max_memory_allocated() / MIB,
        "persistent_mib": persistent / MIB,
    }


def fits(training, batch):
    try:
        images, targets = training.data(batch)
        training.steps(images, targets)
        return True
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        training.optimizer.zero_grad(set_to_none=False)
        images = targets = None
        torch.cuda.empty_cache()


def measure_limit(name, guess):
    """The first batch that runs out of memory, found from a guess. Gradients and the optimizer's
    state come from a step of one image, as when the batch grows from there."""
    training = Training(name)
    fits(training, 1)
    good, bad = 0, LARGEST_BATCH + 1
    batch, stride = guess, max(guess // 16, 1)
    while bad - good > 1:
        if fits(training, batch):
            good = batch
        else:
            bad = batch
        if good == 0:
            batch = max(batch - stride, 1)
        elif bad > LARGEST_BATCH:
            batch = min(batch + stride, LARGEST_BATCH)
            if good == LARGEST_BATCH:
                break
        else:
            batch = (good + bad) // 2
        stride *= 2
    return {"first_out_of_memory": bad}


def measure_record(name, batch):
    """Marks what a step asks the GPU for by NVTX ranges, once gradients and the optimizer's state
    are there."""
    training = Training(name)
    images, targets = training.data(batch)
    outputs = training.steps(images, targets, 1)
    with torch.cuda.nvtx.range(f"{name} batch={batch} forward"):
        outputs = training.forward(images)
    with torch.cuda.nvtx.range(f"{name} batch={batch} backward"):
        training.backward(outputs, targets)
    torch.cuda.synchronize()
    return {}


MEASURES = {
    "time": measure_time,
    "memory": measure_memory,
    "limit": measure_limit,
    "record": measure_record,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument(
        "jobs", nargs="+", metavar="JOB", help="MODEL:BATCH; for 'limit' the batch to try first"
    )
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    # Memory was measured with it, time and limits without.
    torch.backends.cudnn.benchmark = arguments.measure == "memory"
    for job in arguments.jobs:
        name, batch = job.rsplit(":", 1)
        result = MEASURES[arguments.measure](name, int(batch))
        torch.cuda.empty_cache()
        print(json.dumps({"model": name, "batch": int(batch), **result}), flush=True)


if __name__ == "__main__":
    main()

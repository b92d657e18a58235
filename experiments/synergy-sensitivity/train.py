# SPDX-License-Identifier: Apache-2.0
"""Trains one of Synergy's models on random samples, for `gpemu predict`, which prices its steps:

    gpemu predict --gpu V100-SXM2-32GB --batch 512 -- PYTHON train.py resnet18

As in Synergy's jobs: mixed precision, of a GPU of its own, and its size of batch (`--batch`).
"""

import argparse
import os

import torch
import torchvision
from torch import nn

# Synergy crops a track to so many samples of 8,192 Hz.
TRACK = 160_000
# A mean utterance of LibriSpeech, 12.3 s in frames of 10 ms; half of a window of 20 ms at 16 kHz.
FRAMES, FREQUENCIES = 1230, 161
CLASSES = 1000
CHARACTERS = 29


class M5(nn.Sequential):
    """The network for waveforms of Dai et al., "Very deep convolutional neural networks for raw
    waveforms", ICASSP 2017, with 5 layers."""

    def __init__(self):
        layers = []
        channels = 1
        for wider, width, stride in [(128, 80, 4), (128, 3, 1), (256, 3, 1), (512, 3, 1)]:
            layers += [nn.Conv1d(channels, wider, width, stride), nn.BatchNorm1d(wider), nn.ReLU(),
                       nn.MaxPool1d(4)]
            channels = wider
        super().__init__(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(),
                         nn.Linear(channels, CLASSES))


class DeepSpeech(nn.Module):
    """Deep Speech 2 (Amodei et al., ICML 2016) with five bidirectional LSTM layers."""

    def __init__(self, width=1024):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20),
            nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20))
        self.recurrent = nn.LSTM(32 * 41, width, num_layers=5, bidirectional=True)
        self.characters = nn.Linear(2 * width, CHARACTERS)

    def forward(self, spectrograms):
        features = self.convolutions(spectrograms).flatten(1, 2).permute(2, 0, 1)
        return self.characters(self.recurrent(features)[0])


def make(name, batch):
    """Returns the model, a batch and what the loss compares it with."""
    if name == "m5":
        model, samples = M5(), torch.randn(batch, 1, TRACK)
    elif name == "deepspeech":
        model, samples = DeepSpeech(), torch.randn(batch, 1, FREQUENCIES, FRAMES)
    else:
        model, samples = getattr(torchvision.models, name)(), torch.randn(batch, 3, 224, 224)
    return model.cuda(), samples.cuda()


def loss_of(name, output, batch):
    if name != "deepspeech":
        return nn.functional.cross_entropy(output, torch.zeros(batch, dtype=torch.long).cuda())
    frames = output.shape[0]
    letters = torch.ones(batch, frames // 4, dtype=torch.long).cuda()
    return nn.functional.ctc_loss(output.float().log_softmax(-1), letters, [frames] * batch,
                                  [frames // 4] * batch)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model")
    name = options.parse_args().model
    batch = int(os.environ["GPEMU_BATCH"])
    torch.backends.cudnn.benchmark = True
    model, samples = make(name, batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler()
    while True:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = loss_of(name, model(samples), batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()

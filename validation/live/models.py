"""Small real models in PyTorch; beside each stands its workload YAML of the same name."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

PIXELS, CLASSES = 784, 10
HIDDEN, HEADS, LAYERS, WORDS, TOKENS = 256, 4, 4, 4096, 128
LSTM_WIDTH, LSTM_TOKENS, LSTM_WORDS = 256, 32, 4096
TABLES, ROWS, WIDTH, DENSE = 8, 20000, 32, 13


class Block(nn.Module):
    """Two 3 x 3 convolutions around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        """Build the layers."""
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        same = stride == 1 and inputs == outputs
        self.shortcut = (
            nn.Sequential()
            if same
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Any) -> Any:
        """Both ways."""
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet() -> nn.Module:
    """ResNet-18 for images of 32 x 32, as `workloads/resnet-18-cifar.yaml` of the library."""
    sizes = [
        (64, 64, 1),
        (64, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
        (512, 512, 1),
    ]
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(
        *stem, *(Block(*size) for size in sizes), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES)
    )


class Layer(nn.Module):
    """Attention and a multilayer perceptron, norms before each."""

    def __init__(self) -> None:
        """Build the layers."""
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)])
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.perceptron = nn.Sequential(nn.Linear(HIDDEN, 4 * HIDDEN), nn.GELU(), nn.Linear(4 * HIDDEN, HIDDEN))

    def forward(self, x: Any) -> Any:
        """Residuals around both."""
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        core = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(core.transpose(1, 2).reshape(batch, tokens, HIDDEN))
        return x + self.perceptron(self.norms[1](x))


class Gpt(nn.Module):
    """A small GPT whose output layer is tied to its embedding."""

    def __init__(self) -> None:
        """Build the layers."""
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, HIDDEN), nn.Embedding(TOKENS, HIDDEN)
        self.layers, self.norm = nn.Sequential(*(Layer() for _ in range(LAYERS))), nn.LayerNorm(HIDDEN)

    def forward(self, tokens: Any) -> Any:
        """Logits of each token."""
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        return (self.norm(self.layers(x)) @ self.words.weight.T).flatten(0, 1)


class Lstm(nn.Module):
    """Two layers of LSTM between embedding and output layer."""

    def __init__(self) -> None:
        """Build the layers."""
        super().__init__()
        self.words = nn.Embedding(LSTM_WORDS, LSTM_WIDTH)
        self.lstm = nn.LSTM(LSTM_WIDTH, LSTM_WIDTH, 2, batch_first=True)
        self.out = nn.Linear(LSTM_WIDTH, LSTM_WORDS)

    def forward(self, tokens: Any) -> Any:
        """Logits of each token."""
        return self.out(self.lstm(self.words(tokens))[0]).flatten(0, 1)


class Dlrm(nn.Module):
    """Tables and a perceptron of dense features, joined, under a second perceptron; no products of pairs."""

    def __init__(self) -> None:
        """Build the layers."""
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(TABLES))
        self.bottom = nn.Sequential(
            nn.Linear(DENSE, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, WIDTH), nn.ReLU()
        )
        self.top = nn.Sequential(
            nn.Linear((TABLES + 1) * WIDTH, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 2)
        )

    def forward(self, inputs: Any) -> Any:
        """Logits of a click."""
        dense, rows = inputs
        looked_up = [table(rows[:, number]) for number, table in enumerate(self.tables)]
        return self.top(torch.cat([self.bottom(dense), *looked_up], 1))


def perceptron() -> nn.Module:
    """Four layers over images of 28 x 28."""
    hidden = [nn.Linear(PIXELS, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(1024, CLASSES))


def build(name: str, batch: int) -> tuple[nn.Module, Any, Any]:
    """A model, inputs of a batch, and the right answers."""
    match name:
        case "mlp":
            return perceptron(), torch.rand(batch, PIXELS), torch.randint(CLASSES, (batch,))
        case "resnet":
            return resnet(), torch.rand(batch, 3, 32, 32), torch.randint(CLASSES, (batch,))
        case "gpt":
            return Gpt(), torch.randint(WORDS, (batch, TOKENS)), torch.randint(WORDS, (batch * TOKENS,))
        case "lstm":
            return (
                Lstm(),
                torch.randint(LSTM_WORDS, (batch, LSTM_TOKENS)),
                torch.randint(LSTM_WORDS, (batch * LSTM_TOKENS,)),
            )
        case "dlrm":
            return Dlrm(), (torch.rand(batch, DENSE), torch.randint(ROWS, (batch, TABLES))), torch.randint(2, (batch,))
        case _:
            raise ValueError(name)

"""A small convolutional network that classifies images, in PyTorch and in TensorFlow.

The network has two blocks of a 3 × 3 convolution, ReLU and a 2 × 2 maximum, then one linear layer:
the shape of LeNet-5 (LeCun et al. 1998, doi:10.1109/5.726791) with today's activation and pooling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from pis.indicators.frameworks import Framework


@dataclass(frozen=True)
class CnnShape:
    """Sizes of the network and its images.

    :param image_size: height and width in pixels, divisible by 4
    :param width: channels after the first convolution; twice as many after the second
    """

    image_size: int
    channels: int
    width: int
    classes: int

    @property
    def features(self) -> int:
        """Number of inputs of the linear layer.

        >>> CnnShape(8, 3, 4, 10).features
        32
        """
        return (self.image_size // 4) ** 2 * 2 * self.width


def torch_cnn(torch: Any, shape: CnnShape) -> Any:
    """The network as a module; images are (batch, channels, height, width)."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(shape.channels, shape.width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(shape.width, 2 * shape.width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(shape.features, shape.classes),
    )


def tensorflow_cnn_weights(
    framework: Framework, shape: CnnShape, dtype: str, seed: int
) -> list[Any]:
    """The network's variables: filter and bias of each layer, in order."""
    shapes = [
        (3, 3, shape.channels, shape.width),
        (3, 3, shape.width, 2 * shape.width),
        (shape.features, shape.classes),
    ]
    tf, weights = framework.module, []
    for number, sizes in enumerate(shapes):
        inputs = sizes[0] if len(sizes) == 2 else 9 * sizes[2]
        drawn = framework.normal(sizes, dtype, seed + number) / sqrt(inputs)
        weights += [tf.Variable(drawn), tf.Variable(tf.zeros(sizes[-1:], drawn.dtype))]
    return weights


def tensorflow_cnn(tf: Any, weights: Sequence[Any], images: Any) -> Any:
    """Logits of ``images``, which are (batch, height, width, channels)."""
    for kernels, bias in (weights[0:2], weights[2:4]):
        convolved = tf.nn.conv2d(images, kernels, strides=1, padding="SAME")
        images = tf.nn.max_pool2d(tf.nn.relu(convolved + bias), 2, 2, "VALID")
    features = tf.reshape(images, (images.shape[0], -1))
    return tf.matmul(features, weights[4]) + weights[5]

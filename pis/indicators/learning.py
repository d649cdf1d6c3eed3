"""Training a small convolutional network on images that are made here, until it can tell classes.

Each class has a random pattern; an image is its class's pattern plus noise. All of it depends on
the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pis.indicators.cnn import CnnShape, tensorflow_cnn, tensorflow_cnn_weights, torch_cnn
from pis.indicators.convolution import convolution_operations
from pis.indicators.frameworks import Framework
from pis.indicators.operations import gemm_operations

#: Added to the seed for the data, so that no weight is drawn from the same stream.
_IMAGES_SEED = 20_000

#: Standard deviation of the noise; that of a pattern is 1.
NOISE = 1.5
#: Step of the descent with which the networks learn well.
LEARNING_STEP = 0.05
#: Images that are held out, and images in a training step.
HELD_OUT, STEP_IMAGES = 256, 32

#: A backward pass computes two gradients, each with about the operations of the forward pass.
_PASSES_OF_TRAINING = 3


def learning_shape(width: int) -> CnnShape:
    """The network that learns to tell ten classes of images of 16 × 16 in three colours."""
    return CnnShape(16, 3, width, 10)


def forward_operations(shape: CnnShape) -> int:
    """Operations of the network on one image: its two convolutions and its linear layer.

    An image of 4 × 4 with one channel, and a width of 1: 16 outputs of 9 taps, 4 · 2 outputs of 9
    taps, and 2 outputs of 2 inputs: 16 · 17 + 8 · 17 + 2 · 3.

    >>> forward_operations(CnnShape(4, 1, 1, 2))
    414
    """
    size, width = shape.image_size, shape.width
    first = convolution_operations(size**2 * width, 9 * shape.channels)
    second = convolution_operations((size // 2) ** 2 * 2 * width, 9 * width)
    return first + second + gemm_operations(1, shape.classes, shape.features)


def training_operations(shape: CnnShape) -> int:
    """Operations of one image in a training step: those of three forward passes.

    >>> training_operations(CnnShape(4, 1, 1, 2))
    1242
    """
    return _PASSES_OF_TRAINING * forward_operations(shape)


@dataclass(frozen=True)
class Images:
    """Images on the device, with the class of each.

    :param pixels: (images, channels, height, width) in PyTorch, channels last in TensorFlow
    """

    pixels: Any
    labels: Any

    def part(self, start: int, stop: int) -> Images:
        """The images from ``start`` to before ``stop``."""
        return Images(self.pixels[start:stop], self.labels[start:stop])

    def __len__(self) -> int:
        return int(self.labels.shape[0])


def made_images(
    framework: Framework, shape: CnnShape, count: int, seed: int
) -> tuple[Images, Images]:
    """``count`` images with random classes, and some more that are held out."""
    size, channels = shape.image_size, shape.channels
    sizes = (channels, size, size) if framework.name == "torch" else (size, size, channels)
    patterns = framework.normal((shape.classes, *sizes), "float32", seed + _IMAGES_SEED)
    labels = framework.integers((count + HELD_OUT,), 0, shape.classes, seed + _IMAGES_SEED + 1)
    noises = framework.normal((count + HELD_OUT, *sizes), "float32", seed + _IMAGES_SEED + 2)
    gathered = (
        patterns[labels] if framework.name == "torch" else framework.module.gather(patterns, labels)
    )
    images = Images(gathered + NOISE * noises, labels)
    return images.part(0, count), images.part(count, len(images))


class Learner:
    """A network that learns by gradient descent, one batch after the other.

    :param rate: step of the descent
    """

    def __init__(self, framework: Framework, shape: CnnShape, rate: float, seed: int) -> None:
        self._framework = framework
        make = {"torch": _torch_functions, "tensorflow": _tensorflow_functions}
        self._step, self._logits = make[framework.name](framework, shape, rate, seed)

    def epoch(self, images: Images) -> None:
        """Learn from all images once, in their order; a last part of a step is left out."""
        for start in range(0, len(images) - STEP_IMAGES + 1, STEP_IMAGES):
            part = images.part(start, start + STEP_IMAGES)
            loss = self._step(part.pixels, part.labels)
        self._framework.synchronize(loss)

    def logits(self, pixels: Any) -> Any:
        """Scores of the classes, for each image."""
        return self._logits(pixels)

    def accuracy(self, images: Images) -> float:
        """Share of the images whose highest score is that of their class."""
        scores = self._framework.to_host(self.logits(images.pixels))
        labels = self._framework.to_host(images.labels)
        return correct_share(scores, labels)


def correct_share(scores: list[list[float]], labels: list[int]) -> float:
    """Share of rows whose largest score is at the index of the label.

    >>> correct_share([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], [1, 1, 1])
    0.6666666666666666
    """
    hits = sum(row.index(max(row)) == label for row, label in zip(scores, labels))
    return hits / len(labels)


def _torch_functions(
    framework: Framework, shape: CnnShape, rate: float, seed: int
) -> tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]:
    torch = framework.module
    torch.manual_seed(seed)
    model = torch_cnn(torch, shape).to(device=framework.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def step(pixels: Any, labels: Any) -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(pixels), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def logits(pixels: Any) -> Any:
        with torch.inference_mode():
            return model(pixels)

    return step, logits


def _tensorflow_functions(
    framework: Framework, shape: CnnShape, rate: float, seed: int
) -> tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]:
    tf = framework.module
    variables = tensorflow_cnn_weights(framework, shape, "float32", seed)

    def step(pixels: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            scores = tensorflow_cnn(tf, variables, pixels)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
            loss = tf.reduce_mean(losses)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(rate * gradient)
        return loss

    return framework.compiled(step), framework.compiled(partial(tensorflow_cnn, tf, variables))

"""Small networks with synthetic data, for training and inference.

Inputs and targets are random; the network can only learn them by heart, which is enough to
see its loss fall.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pis.indicators.cnn import CnnShape, tensorflow_cnn, tensorflow_cnn_weights, torch_cnn
from pis.indicators.errors import Unsupported
from pis.indicators.frameworks import Framework
from pis.indicators.parameters import Parameter
from pis.indicators.rounding import heed_cudnn
from pis.indicators.transformer import (
    TransformerShape,
    tensorflow_transformer,
    tensorflow_transformer_weights,
    torch_transformer,
    torch_transformer_logits,
)

NETWORK_FRAMEWORKS = ("torch", "tensorflow")

_CNN_PARAMETERS = ("image_size", "channels", "width", "classes")
_TRANSFORMER_PARAMETERS = ("sequence_length", "layers", "hidden_size", "heads", "vocabulary")

#: Added to the seed for the data, so that no weight is drawn from the same stream.
_DATA_SEED = 10_000


@dataclass(frozen=True)
class Network:
    """A network on the device, with one batch of data.

    :param model: PyTorch's module, or the list of TensorFlow's variables
    :param logits: ``logits(model, inputs)``; the last index is the class
    :param targets: a class for each image or token
    :param items: images or tokens in the batch, as ``unit`` says
    :param parameters: those that define this network
    """

    model: Any
    logits: Callable[[Any, Any], Any]
    inputs: Any
    targets: Any
    items: int
    unit: str
    parameters: dict[str, Any]


def network_parameters(dtypes: tuple[str, ...]) -> tuple[Parameter, ...]:
    """The parameters that select a network, its sizes and its batch."""
    return (
        Parameter("model", "cnn", "network", ("cnn", "transformer")),
        Parameter("batch", 16, "images or sequences in a batch"),
        Parameter("image_size", 32, "cnn: height and width in pixels, divisible by 4", low=4),
        Parameter("channels", 3, "cnn: channels of an image"),
        Parameter("width", 16, "cnn: channels after the first convolution"),
        Parameter("classes", 10, "cnn: kinds of images", low=2),
        Parameter("sequence_length", 64, "transformer: tokens in a sequence"),
        Parameter("layers", 2, "transformer: blocks", high=1000),
        Parameter("hidden_size", 128, "transformer: numbers a token, divisible by heads"),
        Parameter("heads", 4, "transformer: attention heads"),
        Parameter("vocabulary", 1000, "transformer: kinds of tokens", low=2),
        Parameter("dtype", "float32", "element type", dtypes),
    )


def network_of(framework: Framework, values: dict[str, Any]) -> Network:
    """The network that the parameter ``values`` describe.

    :raises Unsupported: if a size is not divisible as the network requires
    """
    heed_cudnn(framework)
    return {"cnn": _cnn, "transformer": _transformer}[values["model"]](framework, values)


def _cnn(framework: Framework, values: dict[str, Any]) -> Network:
    shape = CnnShape(**{name: values[name] for name in _CNN_PARAMETERS})
    if shape.image_size % 4:
        raise Unsupported(f"an image_size of {shape.image_size} is not divisible by 4")
    batch, dtype, seed = values["batch"], values["dtype"], values["seed"]
    size, channels = shape.image_size, shape.channels
    if framework.name == "torch":
        model = _torch_model(framework, values, partial(torch_cnn, framework.module, shape))
        logits, sizes = _torch_logits, (batch, channels, size, size)
    else:
        model = tensorflow_cnn_weights(framework, shape, dtype, seed)
        logits, sizes = partial(tensorflow_cnn, framework.module), (batch, size, size, channels)
    images = framework.normal(sizes, dtype, seed + _DATA_SEED)
    labels = framework.integers((batch,), 0, shape.classes, seed + _DATA_SEED + 1)
    parameters = _chosen(values, _CNN_PARAMETERS)
    return Network(model, logits, images, labels, batch, "images", parameters)


def _transformer(framework: Framework, values: dict[str, Any]) -> Network:
    shape = TransformerShape(**{name: values[name] for name in _TRANSFORMER_PARAMETERS})
    if shape.hidden_size % shape.heads:
        raise Unsupported(
            f"a hidden_size of {shape.hidden_size} is not divisible by {shape.heads} heads"
        )
    seed = values["seed"]
    logits: Callable[[Any, Any], Any]
    if framework.name == "torch":
        model = _torch_model(framework, values, partial(torch_transformer, framework.module, shape))
        logits = torch_transformer_logits
    else:
        model = tensorflow_transformer_weights(framework, shape, values["dtype"], seed)
        logits = partial(tensorflow_transformer, framework.module, shape.heads)
    sizes = (values["batch"], shape.sequence_length)
    tokens, targets = (
        framework.integers(sizes, 0, shape.vocabulary, seed + _DATA_SEED + number)
        for number in (0, 1)
    )
    parameters = _chosen(values, _TRANSFORMER_PARAMETERS)
    return Network(model, logits, tokens, targets, sizes[0] * sizes[1], "tokens", parameters)


def _chosen(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in ("model", "batch", *names, "dtype")}


def _torch_model(framework: Framework, values: dict[str, Any], make: Callable[[], Any]) -> Any:
    """A module with PyTorch's own initial weights, which depend on the seed alone."""
    framework.module.manual_seed(values["seed"])
    return make().to(device=framework.device, dtype=framework.dtype(values["dtype"]))


def _torch_logits(model: Any, inputs: Any) -> Any:
    return model(inputs)

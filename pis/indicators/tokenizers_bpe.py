"""The indicator ``tokenizers``: a byte-level BPE tokenizer of 2,000 tokens, trained in the script.

- ``encode``: a text of 10,000 words in one call.
- ``encode_batch``: 500 texts of 20 words in one call, on as many threads as are allowed.
- ``decode``: the tokens of the long text.
"""

from __future__ import annotations

import json
from functools import lru_cache, partial
from random import Random
from typing import Any

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, same

_WORDS, _TOKENS = 10_000, 2_000
_SYLLABLES = [first + vowel for first in "bdfgklmnprst" for vowel in ("a", "e", "in", "o", "ul")]
_SPACE = "Ġ"  # how byte-level tokens write a space


@lru_cache(maxsize=None)
def _trained(tokenizers: Any, seed: int) -> tuple[Any, list[str]]:
    """A tokenizer, and the words of a text; few words are frequent and many are rare."""
    draw = Random(seed)  # noqa: S311
    known = ["".join(draw.choices(_SYLLABLES, k=draw.randint(1, 5))) for _ in range(4_000)]
    text = [known[int(4_000 * draw.random() ** 3)] for _ in range(_WORDS)]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=_TOKENS, show_progress=False)
    tokenizer.train_from_iterator([" ".join(text)], trainer)
    return tokenizer, text


def _merged(tokenizer: Any, words: list[str]) -> list[str]:
    """The tokens of ``words``, by the tokenizer's merges in plain Python."""
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    pairs = [tuple(it.split()) if isinstance(it, str) else tuple(it) for it in merges]
    ranks = {pair: rank for rank, pair in enumerate(pairs)}

    @lru_cache(maxsize=None)
    def of_word(word: str) -> list[str]:
        parts = [*word]
        while True:
            pair = min(zip(parts, parts[1:]), key=lambda it: ranks.get(it, _TOKENS), default=None)
            if pair not in ranks:
                return parts
            at = next(n for n in range(len(parts)) if tuple(parts[n : n + 2]) == pair)
            parts[at : at + 2] = ["".join(pair)]

    spaced = [_SPACE * (number > 0) + word for number, word in enumerate(words)]
    return [token for word in spaced for token in of_word(word)]


def encode(tokenizers: Any, seed: int) -> Made:
    tokenizer, words = _trained(tokenizers, seed)
    text, expected = " ".join(words), _merged(tokenizer, words)
    check = lambda output: same(expected, output.tokens)  # noqa: E731
    return Made(lambda: tokenizer.encode(text), check, {"words": _WORDS, "threads": 1})


def encode_batch(tokenizers: Any, seed: int) -> Made:
    tokenizer, words = _trained(tokenizers, seed)
    texts = [words[start : start + 20] for start in range(0, _WORDS, 20)]
    lines, expected = [" ".join(it) for it in texts], [_merged(tokenizer, it) for it in texts]
    check = lambda output: same(expected, [it.tokens for it in output])  # noqa: E731
    return Made(lambda: tokenizer.encode_batch(lines), check, {"texts": len(texts)})


def decode(tokenizers: Any, seed: int) -> Made:
    tokenizer, words = _trained(tokenizers, seed)
    text = " ".join(words)
    tokens = tokenizer.encode(text).ids
    sizes = {"words": _WORDS, "threads": 1}
    return Made(lambda: tokenizer.decode(tokens), partial(same, text), sizes)


INDICATOR = library_indicator(
    "tokenizers",
    "PiTokenizers",
    "Encode and decode text with a byte-level BPE tokenizer.",
    {"encode": encode, "encode_batch": encode_batch, "decode": decode},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))

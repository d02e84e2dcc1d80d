"""The configuration of a small FNet of the package transformers."""

from typing import Any


def configuration() -> Any:
    """Returns it; two layers, without dropout."""
    from transformers import FNetConfig

    return FNetConfig(
        vocab_size=50,
        hidden_size=24,
        num_hidden_layers=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
    )

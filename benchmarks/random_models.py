"""Random models of real sizes: what a model costs does not depend on what it knows."""

from collections.abc import Sequence
from pathlib import Path

_VOCABULARY = 32_000
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # so that losses can be compared
BASE: dict[str, int] = {}  # BERT's own size: 12 layers of 768
TINY = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512}
SMALL = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}


def bi_encoder(
    folder: Path, texts: Sequence[str], max_length: int, size: dict[str, int] = BASE, *, forgets: bool = False
) -> Path:
    """Write a random BERT with mean pooling whose word pieces are those of the texts; return the model's folder.

    Where it `forgets`, it has BERT's own dropout, else none.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel

    settings = size if forgets else {**_NO_DROPOUT, **size}
    _write(folder, texts, max_length, BertModel, BertConfig(vocab_size=_VOCABULARY, **settings))
    transformer = Transformer(str(folder / "bert"), max_seq_length=max_length)
    pooling = Pooling(transformer.get_embedding_dimension())
    SentenceTransformer(modules=[transformer, pooling]).save_pretrained(str(folder / "model"))
    return folder / "model"


def cross_encoder(folder: Path, texts: Sequence[str], max_length: int, size: dict[str, int] = BASE) -> Path:
    """Write a random BERT with one score. Its layers' weights are wider than is usual, so that scores differ."""
    from transformers import BertConfig, BertForSequenceClassification

    settings = {"initializer_range": 0.06, "num_labels": 1, **_NO_DROPOUT, **size}
    _write(folder, texts, max_length, BertForSequenceClassification, BertConfig(vocab_size=_VOCABULARY, **settings))
    return folder / "bert"


def _write(folder: Path, texts: Sequence[str], max_length: int, kind: type, config: object) -> None:
    import torch
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast

    pieces = BertWordPieceTokenizer(strip_accents=False, lowercase=False)
    pieces.train_from_iterator(texts, vocab_size=_VOCABULARY, show_progress=False)
    tokenizer = BertTokenizerFast(tokenizer_object=pieces._tokenizer, model_max_length=max_length)
    torch.manual_seed(0)
    kind(config).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")

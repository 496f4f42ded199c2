"""Tiny models with random weights, in the layout of models of the Hugging Face hub."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import BertTokenizer

MAX_LENGTH = 128
SENTENCES = (
    "세종대왕은 1443년에 훈민정음을 만들었다.",
    "한강은 서울을 지나 서해로 흐른다.",
    "가을이 오면 설악산의 단풍이 붉게 물든다.",
    "이 다리는 언제 처음 놓였는가?",
    "도서관은 월요일마다 문을 닫는다.",
)
TINY: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def build_bi_encoder(folder: Path, **shape: int) -> Path:
    """Write a random BERT with mean pooling, in the layout of sentence-transformers 2, as the real one is.

    `shape` are values of its configuration.
    """
    import torch
    from transformers import BertConfig, BertModel

    tokenizer = _tokenizer(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    torch.manual_seed(0)
    chosen = {"max_position_embeddings": MAX_LENGTH, "pad_token_id": 0, **TINY, **shape}
    BertModel(BertConfig(vocab_size=len(tokenizer), **chosen)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for name, content in _sentence_transformers_files().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=2), encoding="utf-8")
    return folder


def build_cross_encoder_base(folder: Path, segment_types: int = 2) -> Path:
    """Write a random RoBERTa masked language model with a BERT tokenizer, as klue/roberta-base is.

    `segment_types=1` is RoBERTa's own value: the second text of a pair then has no embedding to look up,
    and a caller that passes the tokenizer's `token_type_ids` gets an IndexError.
    """
    import torch
    from transformers import RobertaConfig, RobertaForMaskedLM

    tokenizer = _tokenizer(("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"))
    torch.manual_seed(0)
    token_ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    positions = MAX_LENGTH + 2  # RoBERTa counts positions from pad_token_id + 1
    sizes = {"max_position_embeddings": positions, "type_vocab_size": segment_types, **TINY}
    config = RobertaConfig(vocab_size=len(tokenizer), **token_ids, **sizes)
    RobertaForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def with_head(folder: Path, head: str = "SequenceClassification") -> Path:
    """Give a base that was written an output layer, as training does: random, and in its files."""
    import torch
    import transformers

    torch.manual_seed(0)
    made = getattr(transformers, f"AutoModelFor{head}").from_pretrained(
        folder, num_labels=1 + (head != "SequenceClassification")
    )
    made.save_pretrained(folder)
    return folder


def build_masked_base(folder: Path) -> Path:
    """Write a random RoBERTa as it is elsewhere: pieces of bytes, `<mask>`, no segments, 512 tokens of 514 places."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import RobertaConfig, RobertaForMaskedLM, RobertaTokenizer

    pieces = ("<s>", "<pad>", "</s>", "<unk>", *sorted(ByteLevel.alphabet()), "<mask>")
    vocabulary = {piece: row for row, piece in enumerate(pieces)}
    tokenizer = RobertaTokenizer(vocab=vocabulary, merges=[], model_max_length=512)
    torch.manual_seed(0)
    config = RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=514, type_vocab_size=1, **TINY)
    RobertaForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def build_sparse_encoder(folder: Path, *, inference_free: bool = False) -> Path:
    """Write a random SPLADE; `inference_free` uses fixed term weights for questions, through a separate route."""
    import torch
    from sentence_transformers.sparse_encoder import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import Router, SparseStaticEmbedding

    base = build_cross_encoder_base(folder.with_name(f"{folder.name}-base"))
    model = SparseEncoder(str(base), device="cpu")
    with torch.no_grad():  # a random head weighs every term about as much: few are to be above 0
        model[0].auto_model.lm_head.decoder.weight.mul_(20)
        model[0].auto_model.lm_head.bias.fill_(-4.0)
    if inference_free:
        tokenizer = model.tokenizer
        weight = torch.linspace(0.5, 2.0, len(tokenizer))
        static = SparseStaticEmbedding(tokenizer, weight, frozen=True)
        model = SparseEncoder(modules=[Router.for_query_document([static], list(model))], device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def _tokenizer(special_tokens: tuple[str, ...]) -> "BertTokenizer":
    from transformers import BertTokenizer

    # Assembled, not trained: the same ids with every version of the trainer.
    words = sorted({word.strip(".?") for sentence in SENTENCES for word in sentence.split()})
    characters = sorted(set("".join(words)))
    pieces = (*special_tokens, ".", "?", *characters, *(f"##{character}" for character in characters), *words)
    vocabulary = {piece: row for row, piece in enumerate(dict.fromkeys(pieces))}
    return BertTokenizer(vocab=vocabulary, do_lower_case=False, model_max_length=MAX_LENGTH)


def _sentence_transformers_files() -> dict[str, object]:
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"))
    modules = [
        {"idx": row, "name": str(row), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for row, (path, kind) in enumerate(kinds)
    ]
    versions = {"sentence_transformers": "2.2.0", "transformers": "4.17.0", "pytorch": "1.10.0"}
    modes = {"cls_token": False, "mean_tokens": True, "max_tokens": False, "mean_sqrt_len_tokens": False}
    pooling_modes = {f"pooling_mode_{name}": is_used for name, is_used in modes.items()}
    return {
        "modules.json": modules,
        "config_sentence_transformers.json": {"__version__": versions},
        "sentence_bert_config.json": {"max_seq_length": MAX_LENGTH, "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": TINY["hidden_size"], **pooling_modes},
    }

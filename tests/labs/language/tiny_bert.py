"""A random BERT of two layers with a small vocabulary, with or without its head."""

from pathlib import Path

from mrc_workbench.models.sources import ModelSource, find_model

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [
    *("배", "담배", "항구", "사과", "먹", "고", "탔", "나", "한강", "서울", "부산", "강"),
    *("##를", "##가", "##에서", "##와", "##었다", "##프다", "##다", "##배", "##는", "##이", "##울"),
]
N_LAYERS = 2
N_HEADS = 2
DIMENSIONS = 16
SHIP = "항구에서 배를 탔다"
PEAR = "사과와 배를 먹었다"
BELLY = "배가 고프다"


def write_model(folder: Path, *, head: bool = True, seed: int = 0) -> ModelSource:
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertModel

    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"vocab_size": len(SPECIALS + PIECES), "hidden_size": DIMENSIONS, "intermediate_size": 24}
    depths = {"num_hidden_layers": N_LAYERS, "num_attention_heads": N_HEADS}
    config = BertConfig(**sizes, **depths, max_position_embeddings=32, initializer_range=0.5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        (BertForMaskedLM if head else BertModel)(config).save_pretrained(folder)
    _save_tokenizer(folder)
    return find_model(str(folder))


def _save_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {piece: number for number, piece in enumerate(SPECIALS + PIECES)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=SPECIALS[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = dict(zip(names, SPECIALS, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=32, **special).save_pretrained(folder)

"""What stands around a tokenizer's model: how a text is made ready, where it is parted, and how pieces become text."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from language.morphemes import BOUNDARY, CLS, MASK, PAD, SEP, SPECIAL, UNKNOWN, Split, TokenizerKind

_SIGN = r"[[\p{P}\p{S}]&&[^▁]]"  # punctuation and symbols, each of them a word


def untrained(kind: TokenizerKind, split: Split, *, lowercase: bool = False) -> Tokenizer:
    """Return a tokenizer without a vocabulary: BERT's `[CLS] a [SEP] b [SEP]`, letters composed (NFC), accents kept.

    All kinds part words alike, at blanks and around each sign. A piece inside a word has ## before it in WordPiece; in
    the others it is the first of a word that has ▁ (or, of bytes, the blank itself) before it.
    """
    tokenizer = Tokenizer(_model(kind))
    before = [normalizers.Lowercase()] if lowercase else []
    blanks = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    after = [normalizers.Prepend(" ")] if kind is TokenizerKind.BYTE_BPE else []
    tokenizer.normalizer = normalizers.Sequence([*before, normalizers.NFC(), *blanks, *after])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(_parting(kind, split))
    tokenizer.decoder = _decoder(kind)
    number = {piece: row for row, piece in enumerate(SPECIAL)}
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(CLS, number[CLS]), (SEP, number[SEP])],
    )
    return tokenizer


def add_special(tokenizer: Tokenizer) -> None:
    """Have the special pieces found in texts; a vocabulary that holds none yet is given them."""
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in (PAD, UNKNOWN, CLS, SEP, MASK)])


def _model(kind: TokenizerKind) -> models.Model:
    match kind:
        case TokenizerKind.WORDPIECE:
            return models.WordPiece(unk_token=UNKNOWN)
        case TokenizerKind.BPE:
            return models.BPE(unk_token=UNKNOWN)
        case TokenizerKind.BYTE_BPE:
            return models.BPE()
    return models.Unigram()


def _parting(kind: TokenizerKind, split: Split) -> list[pre_tokenizers.PreTokenizer]:
    boundary = "removed"
    blanks: pre_tokenizers.PreTokenizer
    words: list[pre_tokenizers.PreTokenizer]
    match kind:
        case TokenizerKind.WORDPIECE:  # it has no other sign that a morpheme goes on with a word: the boundary stays
            boundary = "merged_with_next"
            words = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(_SIGN), "isolated")]
        case TokenizerKind.BYTE_BPE:
            blanks = pre_tokenizers.Split(" ", "merged_with_next")
            words = [blanks, pre_tokenizers.Split(Regex(f" ?{_SIGN}"), "isolated")]
        case _:
            blanks = pre_tokenizers.Metaspace(prepend_scheme="always")
            words = [blanks, pre_tokenizers.Split(Regex(f"▁?{_SIGN}"), "isolated")]
    if split is Split.MORPHEMES:
        words.append(pre_tokenizers.Split(BOUNDARY, boundary))
    if kind is TokenizerKind.BYTE_BPE:
        words.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    return words


def _decoder(kind: TokenizerKind) -> decoders.Decoder:
    match kind:
        case TokenizerKind.WORDPIECE:
            return decoders.Sequence([decoders.WordPiece(), decoders.Replace(f" {BOUNDARY}", "")])
        case TokenizerKind.BYTE_BPE:
            return decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return decoders.Metaspace(prepend_scheme="always")

"""What stands around a tokenizer's model: how a text is made ready, where it is parted, and how pieces become text."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from language.morphemes import BOUNDARY, CLS, MASK, PAD, SEP, SPECIAL, UNKNOWN, Split, TokenizerKind

_SIGN = r"[[\p{P}\p{S}]&&[^▁]]"  # punctuation and symbols, each of them a word


def untrained(kind: TokenizerKind, split: Split, *, lowercase: bool = False) -> Tokenizer:
    """Return a tokenizer without a vocabulary: BERT's `[CLS] a [SEP] b [SEP]`, letters composed (NFC), accents kept.

    All kinds part words alike, at blanks and around each sign. A piece inside a word has ## before it in WordPiece; in
    the others it is the first of a word that has ▁ (or, of bytes, the blank itself) before it.
    """
    model, words, decoder = _of_kind(kind)
    if split is Split.MORPHEMES:  # WordPiece has no other sign that a morpheme goes on with a word: the boundary stays
        behaviour = "merged_with_next" if kind is TokenizerKind.WORDPIECE else "removed"
        words.append(pre_tokenizers.Split(BOUNDARY, behaviour))
    after = []
    if kind is TokenizerKind.BYTE_BPE:
        words.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        after = [normalizers.Prepend(" ")]
    before = [normalizers.Lowercase()] if lowercase else []
    blanks = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([*before, normalizers.NFC(), *blanks, *after])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(words)
    tokenizer.decoder = decoder
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


def _of_kind(kind: TokenizerKind) -> tuple[models.Model, list[pre_tokenizers.PreTokenizer], decoders.Decoder]:
    """The model without pieces, what parts words at blanks and around signs, and what makes text of pieces."""
    words: list[pre_tokenizers.PreTokenizer]
    decoder: decoders.Decoder
    if kind is TokenizerKind.WORDPIECE:
        words = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(_SIGN), "isolated")]
        decoder = decoders.Sequence([decoders.WordPiece(), decoders.Replace(f" {BOUNDARY}", "")])
        return models.WordPiece(unk_token=UNKNOWN), words, decoder
    if kind is TokenizerKind.BYTE_BPE:
        words = [pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Split(Regex(f" ?{_SIGN}"), "isolated")]
        return models.BPE(), words, decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    blanks = pre_tokenizers.Metaspace(prepend_scheme="always")
    words = [blanks, pre_tokenizers.Split(Regex(f"▁?{_SIGN}"), "isolated")]
    model = models.BPE(unk_token=UNKNOWN) if kind is TokenizerKind.BPE else models.Unigram()
    return model, words, decoders.Metaspace(prepend_scheme="always")

"""The tokenizer of XLM-R, as a file that every library of the field reads."""

from typing import TYPE_CHECKING

from models.packaged.quantized import Pieces

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# What sentencepiece's normalization does beside NFKC: control characters go, what is seen as a gap becomes a space, and
# the full-width tilde stays. It waits meanwhile as a code point that Unicode promises never to give to a character.
_GONE = r"[\u0001-\u0008\u000B\u000E-\u001F\u007F\u008F\u009F]"
_GAPS = r"[\t\n\f\r\u1680\u200B-\u200F\u2028\u2029\u2581\uFEFF\uFFFD]"
_TILDE, _MEANWHILE = "\uff5e", "\ufdd0"


def make_tokenizer(pieces: Pieces) -> "Tokenizer":
    """Build the tokenizer of a Unigram vocabulary: `<s> text </s>`, and `<s> one </s></s> other </s>` of a pair."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    scored = list(zip(pieces.texts, pieces.scores, strict=True))
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=pieces.unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_GONE), ""),
            normalizers.Replace(Regex(_GAPS), " "),
            normalizers.Replace(_TILDE, _MEANWHILE),
            normalizers.NFKC(),
            normalizers.Replace(_MEANWHILE, _TILDE),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    begin, end = (pieces.texts[row] for row in (pieces.begin, pieces.end))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} {end} $B {end}",
        special_tokens=[(begin, pieces.begin), (end, pieces.end)],
    )
    special = [begin, end, pieces.texts[pieces.pad], pieces.texts[pieces.unknown]]
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in special])
    tokenizer.add_special_tokens([AddedToken(pieces.texts[-1], special=True, lstrip=True)])  # the mask
    return tokenizer

"""The kinds of tokenizers that can be trained, and the pieces that all of them have."""

from enum import StrEnum

PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # numbered from 0


class TokenizerKind(StrEnum):
    """How a vocabulary is found.

    `WORDPIECE` (Schuster & Nakajima 2012) is trained as the library does, by BPE's merges, and cuts as BERT does, the
    longest piece first. `BPE` (Sennrich et al. 2016), `BYTE_BPE` of bytes, which knows every letter (Radford et al.
    2019), `UNIGRAM` (Kudo 2018).
    """

    WORDPIECE = "wordpiece"
    BPE = "bpe"
    BYTE_BPE = "byte-bpe"
    UNIGRAM = "unigram"


class Split(StrEnum):
    """What no piece crosses: the ends of words, or those of the morphemes in them as well."""

    WORDS = "words"
    MORPHEMES = "morphemes"

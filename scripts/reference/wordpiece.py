#!/usr/bin/env python3
"""Writes tests/reference/wordpiece.json: texts of many scripts and their ids by transformers' BertTokenizer.

    pip install transformers        # once; written with transformers 5.23
    scripts/reference/wordpiece.py

The vocabulary is made here: the special tokens, pieces of English words, and most characters of the texts.
"""
import json
import pathlib
import tempfile

from transformers import BertTokenizer

FILE = pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference" / "wordpiece.json"
TEXTS = [
    "Unaffable, isn't he? The UN's affable men!", "  two\twords\r\nand a\u00a0third\u3000one ", "", " \n", "a" * 100, "a" * 101,
    "é" * 100 + " b", "Café naïve résumé ÀÉÎÕÜ Ångström ñandú", "Cafe\u0301 na\u0308ive e\u0301\u0302\u0303", "İstanbul Straße ΣΊΣΥΦΟΣ ǅ ﬁ Ⅳ",
    "你好，世界 hello世界abc", "日本語のテキスト、カタカナ ガギグ", "한국어 텍스트 각 값", "\uf900\ufa0e compat \U0002f800 \U00020000x", "Привет, Йод ёж",
    "नमस्ते दुनिया কো தௌ", "שלום עולם \ufb2a", "السلام عليكم ٱ", "naïve [MASK] and [SEP] [mask] [[MASK]] x[MASK]y [UNK][PAD] [CLS", "e-mail@host.tld $5.00 #tag ^_^ `~|<=>",
    "‘quotes’ “double” – dash — long… ¿qué? «non» • ‰ ©2024™ №5 ½ ² €9", "zero\u200bwidth\u00adsoft\ufeffbom\u2028line\ufffdx\u0000y\u0007z", "emoji 😀👍🏽 flags 🇩🇪 family 👨\u200d👩\u200d👧",
    "math 𝐀𝐁 ∑∫√ x²+y² ℝ ℌ Å", "##ing ## #a playing ##", "Việt Nam tiếng Việt Đặng", "ǆ Ǆ ŉ ẞ ß ŒÆøØ łŁ đĐ", "\U0001d15f\U0001d1bb music", "\u0c1a\u0c46\u0c48 \u0cca \u0ccb \u0d4a \u0ddd",
    "private \ue000\uf8ff use \U000f0000 tag\U000e0041", "x\u0488y z\u20dd \u0345 \u1abe", "CamelCase MIXED123abc 3.14e-10 v2.0",
]
PAIRS = [["Is it so?", "It is so."], ["one two three four five six", "a b"], ["a b", "one two three four five six"], ["a b c d", "e f g h"],
         ["a b c d e", "f g h"], ["only one text of a few words", ""], ["a b c", "[SEP] d"]]
LENGTHS = [1000, 12, 9, 8, 7, 6, 5, 4, 3]
PIECES = ("un aff una affable ##ffa ##ble ##able is ##n ##t the he men it so one two three four five six words and third play ##ing ##ed "
          "cafe naive resume strasse isn abc ##abc hello mask sep quotes x y ##y ##x ##a ##aa ##aaaa aaaa camel ##case mixed ##123 ##1 3 14 "
          "emoji ##m ##b a b c d e f g h only text of few ## # ##ß host mail tag Café naïve Un The UN").split()


def main():
    characters = sorted({c for text in TEXTS for c in text if not c.isspace() and c not in "\ufffd\0"})
    plain = {c for text in TEXTS for c in BertTokenizer({t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])})
             .backend_tokenizer.normalizer.normalize_str(text) if not c.isspace()}
    known = sorted(plain | set(characters))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + PIECES + known[::1] + ["##" + c for c in known if ord(c) % 5]
    tokens = list(dict.fromkeys(tokens))
    cases = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "vocab.txt"
        path.write_text("\n".join(tokens) + "\n")
        for lower in (True, False):
            tokenizer = BertTokenizer.from_pretrained(folder, do_lower_case=lower)
            encode = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
            pairs = []
            for first, second in PAIRS:
                for length in LENGTHS:
                    if not second and length < 3:
                        continue
                    out = tokenizer(first, second or None, truncation=True, max_length=length)
                    pairs.append([first, second, length, out["input_ids"], out["token_type_ids"]])
            cases["lower" if lower else "cased"] = {"ids": encode, "pairs": pairs}
    FILE.write_text(json.dumps({"vocabulary": tokens, "texts": TEXTS, **cases}, separators=(",", ":")).replace('],"', '],\n"') + "\n")


if __name__ == "__main__":
    main()

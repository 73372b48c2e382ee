"""docs/flags.md is printed from what programs say by --help. HEADROOM_WRITE_DOCS=1 in the environment writes it anew."""
import collections
import functools
import os
import pathlib
import re
import subprocess
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "flags.md"
PROGRAMS = ("train_gpt", "train_text", "train_images", "train_segmentation", "train_detection", "train_mnist", "memory_speed", "what_fits")
OPENING = """# Flags of the programs

What each program takes, as its `--help` has it: flags that mean the same to several programs are in one table. A value
outside of its range, a flag that excludes another one or that misses the one that it needs ends the program with exit
status 2 and one line that names the flag. What cannot be done for another reason, as a file that cannot be read, has 1, and
what does not fit into the memory 3. Sizes have a unit: `512MiB`, `1.5GB`, or bytes.
"""
# "  --lr FLOAT:in [0, 1e+30]=0.001 Needs: --steps  peak learning rate", whose text may be in the next line.
FLAG = re.compile(r"""^\ \ (?P<name>-\S+)
    (?:\ \[(?P<optional>\w+)\]
     |\ (?P<kind>FILE\|INT|INT|UINT|FLOAT|TEXT|FILE)(?::(?P<rule>UINT64|SIZE|NAME|\{[^}]*\}|in\ \[[^]]*\]))?(?:=(?P<default>\S+))?(?P<many>\ \.\.\.)?)?
    (?P<conditions>(?:\ (?:REQUIRED|(?:Needs|Excludes):(?:\ --\S+)+))*)
    (?:\ +(?P<meaning>\S.*))?$""", re.VERBOSE)
TEXT = re.compile(r"^ {20,}(\S.*)$")
WORDS = {"INT": "integer", "UINT": "integer", "FLOAT": "number", "TEXT": "text", "FILE": "file", "FILE|INT": "file or integer"}


def flags_of(text):
    """Of a program's help: each flag with what it takes, its default, and its meaning with what it needs and excludes."""
    entries = []
    for line in text.splitlines():
        if found := FLAG.match(line):
            entries.append([found, found["meaning"] or ""])
        elif (found := TEXT.match(line)) and entries:
            entries[-1][1] = f"{entries[-1][1]} {found[1]}".strip()
    for found, meaning in entries:
        if found["name"] in ("-h,--help", "--version"):
            continue
        assert not re.match(r"(?:INT|UINT|FLOAT|TEXT|FILE)\b|[A-Z]+\|", meaning), f"a kind of value that this test does not know: {meaning}"
        conditions = re.findall(r"REQUIRED|(?:Needs|Excludes):(?: --\S+)+", found["conditions"])
        yield found["name"], taken(found), found["default"] or "", "; ".join([meaning, *map(spelled, conditions)])


def taken(found):
    if found["optional"]:
        return f"{found['optional'].lower()}, or nothing"
    if not found["kind"]:
        return ""
    rule = found["rule"] or ""
    word = {"SIZE": "size", "NAME": "name"}.get(rule, WORDS[found["kind"]])
    if rule.startswith("{"):
        word = ", ".join(f"`{way}`" for way in rule[1:-1].split(","))
    elif rule.startswith("in "):
        word += f" {rule[3:].replace('[', 'from ').replace(', ', ' to ').rstrip(']')}"
    return word + (", several" if found["many"] else "")


def spelled(condition):
    if condition == "REQUIRED":
        return "must be given"
    kind, _, names = condition.partition(": ")
    return ("needs " if kind == "Needs" else "not beside ") + " or ".join(f"`{name}`" for name in names.split())


@functools.cache
def help_of(program):
    path = os.path.join(os.environ["HEADROOM_EXAMPLES_DIR"], program)
    return subprocess.run([path, "--help"], check=True, capture_output=True, text=True).stdout


def page():
    programs = collections.defaultdict(list)
    for program in PROGRAMS:
        for flag in flags_of(help_of(program)):
            programs[flag].append(program)
    tables = collections.defaultdict(list)
    for flag, names in programs.items():
        tables[tuple(names)].append(flag)
    text = OPENING
    for names in sorted(tables, key=lambda names: (-len(names), [PROGRAMS.index(name) for name in names])):
        text += f"\n## {', '.join(names)}\n\n| flag | takes | default | meaning |\n| --- | --- | --- | --- |\n"
        for name, takes, default, meaning in tables[names]:
            text += "|" + "".join(f" {cell} |" if cell else " |" for cell in (f"`{name}`", takes, default, meaning)) + "\n"
    return text


class Page(unittest.TestCase):
    maxDiff = None

    def test_is_what_programs_say(self):
        right = page()
        if os.environ.get("HEADROOM_WRITE_DOCS"):
            PAGE.write_text(right, encoding="utf-8")
        self.assertEqual(PAGE.read_text(encoding="utf-8"), right,
                         "run this test with HEADROOM_WRITE_DOCS=1 to write docs/flags.md anew")

    def test_has_each_flag_of_each_program(self):
        text = PAGE.read_text(encoding="utf-8")
        for program in PROGRAMS:
            listed = {name for section in re.findall(rf"\n## [^\n]*\b{program}\b[^\n]*\n(.*?)(?=\n## |\Z)", text, re.DOTALL)
                      for name in re.findall(r"^\| `(--[\w-]+)`", section, re.MULTILINE)}
            flags = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", help_of(program), re.MULTILINE)) - {"--help", "--version"}
            self.assertEqual(listed, flags, program)

    def test_is_read_as_it_is_meant(self):
        help_text = ("Options:\n  -h,--help                   Print this\n  --lr FLOAT:in [0, 1e+30]=0.001\n"
                     "                              peak, of all\n  --tune [FILE] Needs: --a    try\n  --bytes Excludes: --tokens --b  of any file\n"
                     "  --data TEXT REQUIRED        a file\n  --way TEXT:{a,b}=a          which\n  --gpu TEXT:NAME ...         several\n"
                     "  --ranks INT:in [1, 9] with one space\n  --limit UINT:SIZE=12        most\n\n  program --lr 3\n")
        self.assertEqual(list(flags_of(help_text)), [
            ("--lr", "number from 0 to 1e+30", "0.001", "peak, of all"),
            ("--tune", "file, or nothing", "", "try; needs `--a`"),
            ("--bytes", "", "", "of any file; not beside `--tokens` or `--b`"),
            ("--data", "text", "", "a file; must be given"),
            ("--way", "`a`, `b`", "a", "which"),
            ("--gpu", "name, several", "", "several"),
            ("--ranks", "integer from 1 to 9", "", "with one space"),
            ("--limit", "size", "12", "most")])


if __name__ == "__main__":
    unittest.main()

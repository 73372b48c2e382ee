"""Tables in Markdown pages between marks, which scripts remake from result files."""

import sys

END = "<!-- end of figures -->"


def between_marks(page, mark, text, name):
    """`page` with `text` in place of what stands between the mark, a comment, and the next end."""
    begin = f"<!-- {mark} -->"
    before, _, rest = page.partition(begin)
    after = rest.partition(END)[2]
    if not after:
        sys.exit(f"{name} has no marks {begin} and {END}")
    return f"{before}{begin}\n\n{text}\n\n{END}{after}"

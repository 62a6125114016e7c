"""`python -m tests.reference` writes docs/reference.md; `make docs` calls it."""

from tests.reference.document import FILE, text

FILE.write_text(text(), "utf-8")

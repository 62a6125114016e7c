"""`python -m tests.reference` writes docs/reference.md and docs/api-coverage.md; `make docs` calls it."""

from tests.reference import coverage, document

for page in (document, coverage):
    page.FILE.write_text(page.text(), "utf-8")

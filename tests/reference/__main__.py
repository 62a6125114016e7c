"""`python -m tests.reference` writes the pages that are made from the code, and the pictures; `make docs` calls it."""

from tests.reference import coverage, delays, document, night

for page in (document, coverage, night, delays):
    page.FILE.write_text(page.text(), "utf-8")

"""`python -m tests.reference` writes the pages that are made from the code, and the pictures; `make docs` calls it."""

from tests.reference import coverage, delays, document, night, soak

for page in (document, coverage, night, delays, soak):
    page.FILE.write_text(page.text(), "utf-8")

"""The site: every page of Markdown that people read, with search, in light and dark. Built by `make site`.

The source is the repository's root, so that links between pages are the same here and where the files lie.
"""

project = "campaign-worker"
project_copyright = "campaign-worker authors"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/*.md", "docs/decisions/*.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
exclude_patterns = [".*", "benchmarks", "build", "deploy", "dist", "rules", "tests", "worker"]
myst_heading_anchors = 4
highlight_language = "none"

html_theme = "furo"
html_title = "campaign-worker"
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["index.html"]

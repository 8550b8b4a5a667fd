"""Settings of Sphinx for the documentation site; `make docs` builds it."""

from sphinx.ext.napoleon import GoogleDocstring

project = "constrained-dnc"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]

myst_heading_anchors = 3  # links to headings work as they do on GitHub
default_role = "literal"  # backticks in docstrings are code

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autosummary_generate = False

html_theme = "furo"
html_title = "constrained-dnc"
html_copy_source = False


def setup(app):
    app.connect("autodoc-process-docstring", read_arguments)
    app.connect("autodoc-process-docstring", show_tables_as_they_are)


def read_arguments(app, what, name, documented, options, lines):
    """The sections Args and Returns; in a constant's docstring, text before a colon is no type."""
    if what in ("class", "function", "method"):
        lines[:] = GoogleDocstring(lines, what=what, name=name, obj=documented).lines()


def show_tables_as_they_are(app, what, name, documented, options, lines):
    """A table in a docstring has bars, as in Markdown."""
    shown = []
    for line in lines:
        if line.startswith("|") and not (shown and shown[-1].startswith("   |")):
            shown += ["::", ""]
        shown.append(f"   {line}" if line.startswith("|") else line)
    lines[:] = shown

"""Turns the English pages of Debian's debian-handbook into two plain texts that share no page.

usage: handbook.py FOLDER_OF_HTML CALIBRATION.txt EVALUATION.txt

Pages are taken in the order of their names and dealt out in turn, so both texts cover the same subjects.
"""
import html.parser
import pathlib
import sys

BLOCKS = {"p", "div", "li", "ul", "ol", "dl", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6", "table", "tr", "pre", "br", "title"}
NAVIGATION = {"banner", "title", "docnav", "docnav top", "toc"}
VOID = {"meta", "link", "img", "br", "hr", "input", "col"}


class Page(html.parser.HTMLParser):
    """Collects paragraphs; leaves out the head and everything inside navigation."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.paragraphs = []
        self.words = []
        self.hidden = 0  # depth of tags inside something left out, 0 outside

    def close_paragraph(self):
        if text := " ".join("".join(self.words).split()):
            self.paragraphs.append(text)
        self.words = []

    def handle_starttag(self, tag, attributes):
        if tag in BLOCKS:
            self.close_paragraph()
        if tag in VOID:
            return
        marks = {value for key, value in attributes if key in ("id", "class")}
        if self.hidden or tag == "head" or marks & NAVIGATION and tag in ("div", "p", "ul"):
            self.hidden += 1

    def handle_endtag(self, tag):
        if tag in BLOCKS:
            self.close_paragraph()
        if self.hidden and tag not in VOID:
            self.hidden -= 1

    def handle_data(self, data):
        if not self.hidden:
            self.words.append(data)


def main():
    folder, *outputs = sys.argv[1:]
    pages = sorted(pathlib.Path(folder).glob("*.html"))
    texts = [[], []]
    for number, path in enumerate(pages):
        page = Page()
        page.feed(path.read_text(encoding="utf-8"))
        page.close()
        page.close_paragraph()
        texts[number % 2].extend(page.paragraphs)
    for output, paragraphs in zip(outputs, texts, strict=True):
        text = "\n\n".join(paragraphs) + "\n"
        if len(text) < 300_000:
            sys.exit(f"handbook.py: only {len(text)} characters of text in {folder}: not the handbook that is expected")
        pathlib.Path(output).write_text(text, encoding="utf-8")


main()

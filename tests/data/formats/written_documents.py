"""Small documents: a PDF with Korean text written by hand, a Word document, a password, a scan."""

import io
from collections.abc import Sequence

import docx


def pdf(pages: Sequence[str], *, is_encrypted: bool = False) -> bytes:
    """Return a PDF with a text on each page, one line a paragraph; a page without text has a drawing.

    The font is not embedded: its predefined CMap (UniKS-UTF16-H) tells the characters, as in PDFs of Korean programs.
    """
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< /Type /Font /Subtype /Type0 /BaseFont /HYSMyeongJo /Encoding /UniKS-UTF16-H /DescendantFonts [4 0 R] >>",
        b"<< /Type /Font /Subtype /CIDFontType0 /BaseFont /HYSMyeongJo /DW 1000 /FontDescriptor 5 0 R"
        b" /CIDSystemInfo << /Registry (Adobe) /Ordering (Korea1) /Supplement 1 >> >>",
        b"<< /Type /FontDescriptor /FontName /HYSMyeongJo /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0"
        b" /Ascent 800 /Descent -200 /CapHeight 800 /StemV 80 >>",
    ]
    numbers = []
    for text in pages:
        numbers.append(len(objects) + 1)
        stream = _stream(text)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F 3 0 R >> >>"
            b" /Contents %d 0 R >>" % (len(objects) + 2)
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    kids = b" ".join(b"%d 0 R" % number for number in numbers)
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(pages), kids)
    trailer = b"/Root 1 0 R"
    if is_encrypted:
        objects.append(b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (b"41" * 32, b"42" * 32))
        trailer += b" /Encrypt %d 0 R /ID [<00> <00>]" % len(objects)
    return _file(objects, trailer)


def _stream(text: str) -> bytes:
    if not text:
        return b"0 0 100 100 re f"
    lines = b" T* ".join(b"<%s> Tj" % line.encode("utf-16-be").hex().encode() for line in text.split("\n"))
    return b"BT /F 12 Tf 14 TL 72 780 Td %s ET" % lines


def _file(objects: Sequence[bytes], trailer: bytes) -> bytes:
    out = io.BytesIO()
    out.write(b"%PDF-1.7\n")
    offsets = []
    for number, content in enumerate(objects, start=1):
        offsets.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.writelines(b"%010d 00000 n \n" % offset for offset in offsets)
    out.write(b"trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, start))
    return out.getvalue()


def word(*blocks: tuple[str, int], table: Sequence[Sequence[str]] = ()) -> bytes:
    """Return a Word document of headings (text, level) and paragraphs (text, 0), and a table at its end."""
    document = docx.Document()
    for text, level in blocks:
        if level:
            document.add_heading(text, level)
        else:
            document.add_paragraph(text)
    if table:
        grid = document.add_table(len(table), len(table[0]))
        for row, cells in enumerate(table):
            for column, text in enumerate(cells):
                grid.cell(row, column).text = text
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()

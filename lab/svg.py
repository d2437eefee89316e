# SPDX-License-Identifier: MIT
"""svg.py - a matplotlib drawing as part of a page: colours that follow the reader's theme, names for screen readers.

Each colour of theme.py becomes a CSS variable, after the plain colour for programs that know no variables.  Ids get a
prefix, because a page has several drawings.  The same drawing gives the same bytes.
"""
import re
import xml.etree.ElementTree as ET

import theme

SVG, LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
FONTS = "'DejaVu Sans', Verdana, 'Segoe UI', Roboto, sans-serif"
PAD = 10
ET.register_namespace("", SVG)
ET.register_namespace("xlink", LINK)


def variable_of():
    return {colour: name for name, colour in theme.variables(False).items()}


def styled(text, names):
    """A style attribute, with every colour of the theme twice: plain, and as a variable."""
    text = re.sub(r"'DejaVu Sans'(, sans-serif)?", FONTS, text)
    return re.sub(r"(fill|stroke): (#[0-9a-f]{6})\b",
                  lambda found: f"{found[0]}; {found[1]}: var(--{names[found[2]]})" if found[2] in names else found[0], text)


def renamed(element, prefix):
    for key, value in element.attrib.items():
        if key == "id":
            element.set(key, f"{prefix}-{value}")
        elif key == f"{{{LINK}}}href":
            element.set(key, f"#{prefix}-{value[1:]}")
        elif "url(#" in value:
            element.set(key, value.replace("url(#", f"url(#{prefix}-"))


def plain_joins(root):
    """Replace the drawing's only style sheet, which would apply to the whole page, by attributes."""
    for parent in root.findall(f"{{{SVG}}}defs"):
        for sheet in parent.findall(f"{{{SVG}}}style"):
            parent.remove(sheet)
        if not len(parent):
            root.remove(parent)
    root.set("stroke-linejoin", "round")
    root.set("stroke-linecap", "butt")


def named(root, prefix, title, said):
    """Add the text for screen readers: the title, and a description."""
    for number, (tag, text) in enumerate((("title", title), ("desc", said))):
        element = ET.Element(f"{{{SVG}}}{tag}", {"id": f"{prefix}-{tag}"})
        element.text = text
        root.insert(number, element)
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}-title {prefix}-desc")


def padded(root):
    """Add a margin, in points, around a drawing that stands alone."""
    width, height = (float(number) for number in root.get("viewBox").split()[2:])
    root.set("viewBox", f"-{PAD} -{PAD} {width + 2 * PAD:g} {height + 2 * PAD:g}")
    root.set("width", f"{width + 2 * PAD:g}pt")
    root.set("height", f"{height + 2 * PAD:g}pt")


def improved(data, prefix, title, said, alone):
    """data: an SVG file.  alone: it stays a file of its own, and needs the variables in it."""
    root = ET.fromstring(data)
    for found in root.findall(f"{{{SVG}}}metadata"):
        root.remove(found)
    plain_joins(root)
    names = variable_of()
    for element in root.iter():
        renamed(element, prefix)
        if "style" in element.attrib:
            element.set("style", styled(element.get("style"), names))
    named(root, prefix, title, said)
    if alone:
        style = ET.Element(f"{{{SVG}}}style")
        style.text = theme.css() + "svg{background:var(--paper)}"
        root.insert(2, style)
        padded(root)
    else:
        for key in ("width", "height"):
            root.attrib.pop(key, None)
        root.set("class", "plot")
    return ET.tostring(root, encoding="unicode")

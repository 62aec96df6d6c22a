"""What the browser gets: pinned, small, and nothing inline."""

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest
from django.urls import reverse

from tests.ops_console import scenes
from tests.ops_console.test_payment_page import fill_timeline

ROOT = Path(__file__).resolve().parents[2]
STATIC, TEMPLATES = ROOT / "static", ROOT / "templates"


def zipped(content: bytes) -> int:
    return len(gzip.compress(content, 6))


def test_vendored_files_are_what_they_say():
    listed = json.loads((STATIC / "vendor/VENDOR.json").read_text())["files"]

    for entry in listed:
        assert set(entry) == {"file", "name", "version", "licence", "source", "sha256"}
        assert hashlib.sha256((STATIC / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    scripts = {f"vendor/{path.name}" for path in (STATIC / "vendor").glob("*.js")}
    assert scripts <= {entry["file"] for entry in listed}


def test_every_icon_in_use_is_in_the_sprite():
    sprite = set(re.findall(r'<symbol id="([a-z-]+)"', (STATIC / "icons.svg").read_text()))
    used = {
        name for path in TEMPLATES.rglob("*.html") for name in re.findall(r'{% icon "([a-z-]+)" %}', path.read_text())
    }
    used |= {"robot", "plug", "user", "building-bank", "copy"}

    assert used <= sprite
    assert sprite <= used | {"arrow-up"}, "unused icons weigh"


def test_nothing_is_inline():
    for path in TEMPLATES.rglob("*.html"):
        text = path.read_text()
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|hx-on|js:|javascript:|<script(?![^>]* src=)", text), path
        assert not re.search(r'hx-trigger="[^"]*\[', text), path


def test_the_script_holds_no_words():
    script = re.sub(r"//.*", "", (STATIC / "console.js").read_text())

    assert zipped(script.encode()) < 6 * 1024
    for text in re.findall(r'"([^"]*)"', script):
        assert not re.search(r"[A-Z][a-z]+ |[a-z]+ [a-z]+ [a-z]+", text), text


@pytest.mark.django_db
def test_the_pages_are_light(ops, client_of_merchant, bank):
    payment = scenes.unknown(client_of_merchant)
    fill_timeline(payment, 500)
    for number in range(50):
        scenes.queued(client_of_merchant, customer_ref=f"C-{number}")
    shared = sum(
        zipped((STATIC / name).read_bytes())
        for name in ("console.css", "console.js", "icons.svg", "favicon.svg", "vendor/htmx-4.0.1.min.js")
    )

    page = ops.get(reverse("ops_console:payment", args=[payment.pk])).content
    listed = ops.get(reverse("ops_console:payments")).content

    assert zipped(page) < 40 * 1024
    assert shared + zipped(listed) < 60 * 1024


@pytest.mark.django_db
def test_pages_are_sent_zipped(ops):
    answer = ops.get(reverse("ops_console:find"), headers={"Accept-Encoding": "gzip"})

    assert answer["Content-Encoding"] == "gzip"


@pytest.mark.django_db
def test_pages_carry_the_strict_policy(ops):
    policy = ops.get(reverse("ops_console:find"))["Content-Security-Policy"]

    assert "script-src 'self';" in policy
    assert "unsafe" not in policy


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_the_tokens_have_contrast(theme):
    """WCAG 2.2: 4.5 for text (1.4.3), 3 for the edge of controls (1.4.11)."""
    css = (STATIC / "console.css").read_text()
    tokens = {
        name: (light, dark)[theme]
        for name, light, dark in re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", css)
    }
    text_on = [
        (text, ground) for text in ("text", "muted", "accent") for ground in ("bg", "surface", "raised", "hover")
    ]
    text_on += [(tone, f"{tone}-soft") for tone in ("good", "bad", "warn", "accent")]
    text_on += [
        ("text", "calm-soft"),
        ("muted", "calm-soft"),
        ("bad", "surface"),
        ("warn", "surface"),
        ("good", "surface"),
    ]

    for text, ground in text_on:
        assert contrast(tokens[text], tokens[ground]) >= 4.5, (text, ground)
    assert contrast("#ffffff", tokens["accent-fill"]) >= 4.5
    for ground in ("surface", "bg"):
        assert contrast(tokens["line-strong"], tokens[ground]) >= 3

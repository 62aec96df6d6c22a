"""The page for people: the last entries, the faults in force, whether there is an outage, and the magic tokens."""

import json
from collections.abc import Iterable
from html import escape
from typing import Any

from sandbox.clock import rfc3339
from sandbox.fault_scripts import Fault
from sandbox.faults import MagicToken
from sandbox.ledger import Entry
from sandbox.listeners import Outage
from sandbox.magic_tokens import MAGIC_TOKENS

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem; color: #1b1b1b; background: #fff; }
table { border-collapse: collapse; margin: 0 0 2rem; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; }
th, td { text-align: left; padding: .3rem .8rem; border-bottom: 1px solid #ccc; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.outage { border: 2px solid #b00020; padding: .5rem 1rem; }
div.wide { overflow-x: auto; }
"""
ENTRY_HEADINGS = ("Booked", "Operation", "Reference", "Bank transaction", "Amount", "Status", "Code", "Received")


def ledger_page(
    *, entries: list[Entry], summary: dict[str, Any], faults: list[Fault], outage: Outage | None, at_ms: int
) -> str:
    """Return the whole page."""
    active = [fault for fault in faults if fault.is_active(at_ms)]
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Sandbox bank</title>
<style>{STYLE}</style></head>
<body>
<main>
<h1>Sandbox bank</h1>
{_outage(outage)}
<p>{summary["entries"]} entries from {summary["requestsReceived"]} requests;
{summary["referencesBookedTwice"]} references booked twice;
{summary["notifications"]["due"]} notifications due. <a href="/ledger">Whole ledger as JSON</a></p>
{_table("Active faults", ("Id", "Met", "Script"), map(_fault_row, active), "No faults: the bank behaves.")}
{_table("Last entries", ENTRY_HEADINGS, map(_entry_row, entries), "Nothing booked yet.")}
{_table("Magic tokens", ("paymentToken", "What happens", "Acts on"), map(_token_row, MAGIC_TOKENS.items()), "")}
</main>
</body>
</html>
"""


def _outage(outage: Outage | None) -> str:
    if outage is None:
        return "<p>The bank port is open.</p>"
    until = rfc3339(outage.until_ms) or "it is ended"
    return f'<p class="outage"><strong>Outage: {escape(outage.kind)}</strong> until {escape(until)}</p>'


def _table(caption: str, headings: Iterable[str], rows: Iterable[str], nothing: str) -> str:
    body = "\n".join(rows)
    if not body:
        return f"<h2>{caption}</h2><p>{nothing}</p>"
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    return (
        f'<div class="wide"><table><caption>{caption}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _token_row(named: tuple[str, MagicToken]) -> str:
    token, magic = named
    acts_on = "every request" if magic.first_requests is None else f"first {magic.first_requests} of a reference"
    return f"<tr><td><code>{escape(token)}</code></td><td>{escape(magic.meaning)}</td><td>{acts_on}</td></tr>"


def _fault_row(fault: Fault) -> str:
    script = json.dumps({name: fault.script[name] for name in fault.script if name != "id"}, ensure_ascii=False)
    times = f"{fault.used} of {fault.times}" if fault.times else str(fault.used)
    return f"<tr><td>{escape(fault.id)}</td><td>{times}</td><td><code>{escape(script)}</code></td></tr>"


def _entry_row(entry: Entry) -> str:
    amount = entry.amount.as_json() if entry.amount else {"value": "", "currency": ""}
    cells = [
        rfc3339(entry.booked_at_ms) or "",
        entry.operation,
        entry.reference,
        entry.bank_transaction_id or "",
        f"{amount['value']} {amount['currency']}",
        entry.status,
        f"{entry.code or ''} {entry.text or ''}",
        str(entry.times_received),
    ]
    numeric = {4, 7}
    return (
        "<tr>"
        + "".join(
            f"<td{' class=number' if place in numeric else ''}>{escape(cell)}</td>" for place, cell in enumerate(cells)
        )
        + "</tr>"
    )

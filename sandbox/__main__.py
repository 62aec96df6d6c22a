"""Start the bank: ``python -m sandbox --help`` lists what can be set."""

import asyncio
import json
import logging
import signal
import sqlite3
import sys

from aiohttp import web

from sandbox.bank import BANK, Bank
from sandbox.bank_app import LARGEST_BODY, add_bank_routes
from sandbox.control_app import add_control_routes
from sandbox.faults import FaultBook
from sandbox.ledger import Ledger
from sandbox.listeners import BACKLOG, BankPort
from sandbox.magic_tokens import MAGIC_TOKENS
from sandbox.notifications import Notifier
from sandbox.settings import Settings, read_settings

# Requests that still run when the process is told to end get this long.
LAST_REPLIES_SECONDS = 0.2
LARGEST_CONTROL_BODY = 4 * 1024 * 1024


async def serve(settings: Settings) -> None:
    """Run the bank until SIGTERM or SIGINT."""
    told_to_end = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, told_to_end.set)
    bank = _open_bank(settings)
    work = [asyncio.create_task(bank.notifier.run()), asyncio.create_task(bank.keep_completing())]
    bank_runner = await _runner(bank, with_contract=True)
    control_runner = await _runner(bank, with_contract=False)
    await bank.port.open(bank_runner)
    control = web.TCPSite(control_runner, settings.host, settings.control_port, backlog=BACKLOG)
    await control.start()
    _say_ready(settings.host, bank_port=bank.port.port, control_port=control.port)
    ending = asyncio.create_task(told_to_end.wait())
    # The loops never end by themselves: a broken one ends the process with its traceback.
    await asyncio.wait([ending, *work], return_when=asyncio.FIRST_COMPLETED)
    broken = [task for task in work if task.done()]
    await asyncio.gather(bank_runner.cleanup(), control_runner.cleanup())
    for task in work:
        task.cancel()
    await asyncio.gather(*work, return_exceptions=True)
    bank.ledger.close()
    for task in broken:
        task.result()


def _open_bank(settings: Settings) -> Bank:
    ledger = Ledger(settings.store)
    return Bank(
        settings=settings,
        ledger=ledger,
        faults=FaultBook(ledger=ledger, magic_tokens=MAGIC_TOKENS, seed=settings.seed),
        notifier=Notifier(ledger=ledger, keys=settings.keys, retry_scale=settings.notify_retry_scale),
        port=BankPort(host=settings.host, port=settings.port),
    )


async def _runner(bank: Bank, *, with_contract: bool) -> web.AppRunner:
    app = web.Application(client_max_size=LARGEST_BODY if with_contract else LARGEST_CONTROL_BODY)
    app[BANK] = bank
    if with_contract:
        app.middlewares.append(bank.port.watch)
    add_control_routes(app)
    if with_contract:
        add_bank_routes(app)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=LAST_REPLIES_SECONDS)
    await runner.setup()
    return runner


def _say_ready(host: str, *, bank_port: int, control_port: int) -> None:
    urls = {"url": f"http://{host}:{bank_port}", "control_url": f"http://{host}:{control_port}"}
    print(json.dumps(urls), flush=True)


def main() -> None:
    """Entrance of ``python -m sandbox``."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    try:
        asyncio.run(serve(read_settings(sys.argv[1:])))
    except (OSError, sqlite3.Error) as error:
        # A port that is taken or a store that cannot be opened is the caller's to mend: no traceback.
        sys.exit(f"sandbox: {error}")


if __name__ == "__main__":
    main()

"""``engram demo``: the whole cycle on real input, through a real MCP client, in a temporary store."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import click

from tools.cli.demonstration.story import Failed, run
from tools.cli.options import config_option

_DECISIONS = Path("docs") / "decisions"


@click.command("demo")
@config_option
@click.option("--keep", is_flag=True, help="Leave the temporary store where it is, and say where.")
def command(*, keep: bool) -> None:
    """Show the whole cycle on this project's own decision records, in a temporary store.

    It makes a host file of its own beside that store: --config is taken, as by every command, and not looked at.
    """
    sources = sorted((Path(__file__).resolve().parents[2] / _DECISIONS).glob("*.md"))
    if not sources:
        click.echo("engram demo: docs/decisions/ is not here; run it from a checkout of the project", err=True)
        sys.exit(2)
    place = Path(tempfile.mkdtemp(prefix="engram-demo-"))
    began = time.monotonic()
    try:
        run(place, sources)
    except Failed as failure:
        click.echo(f"\nFAILED: {failure}", err=True)
        sys.exit(1)
    finally:
        if keep:
            click.echo(f"The store is at {place}.")
        else:
            shutil.rmtree(place, ignore_errors=True)
    click.echo(f"\nAll of it held. {time.monotonic() - began:.1f} s.")

"""The command `neuralcpm`: thin verbs over the packages."""

from __future__ import annotations

import errno
import io
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import typer

from neuralcpm_bridge.errors import UserError

from . import (
    bench,
    cc3d,
    data,
    demo,
    distill,
    doctor,
    explain,
    fit,
    model,
    models,
    morpheus,
    report,
    simulate,
    train,
    view,
)
from .group import VerbGroup

# what every typer raises for wrong use, wherever it keeps the class (its own click or the package)
UsageError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

app = typer.Typer(
    name="neuralcpm",
    cls=VerbGroup,
    help="Learned cellular Potts energies for CompuCell3D, Morpheus and an embedded host.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text: boxes leave half of 80 columns for the words
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(model.info)
app.command()(model.energy)
app.command()(model.verify)
app.command("import-reference")(model.import_reference)
app.command()(models.models)
app.command()(fit.fit)
app.command()(fit.refit)
app.command()(train.train)
app.command()(train.export)
app.command()(train.evaluate)
app.command()(train.reproduce)
app.command()(simulate.simulate)
app.command()(view.view)
app.command()(explain.explain)
app.command()(distill.distill)
app.command()(report.report)
app.command()(bench.bench)
app.command()(doctor.doctor)
data.data_app.command("cellsort")(train.data_cellsort)
data.data_app.command("cellular-mnist")(train.data_cellular_mnist)
data.data_app.command("bipolar")(train.data_bipolar)
data.data_app.command("elongation")(train.data_elongation)
app.add_typer(data.data_app, cls=VerbGroup)
app.add_typer(cc3d.cc3d_app, name="cc3d", cls=VerbGroup)
app.add_typer(morpheus.morpheus_app, name="morpheus", cls=VerbGroup)


def main() -> None:
    """Run a verb; a user's mistake is one sentence and exit code 2, a bug of ours a sentence and a log."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # letters that a console lacks become question marks, not errors
    sys.exit(run())


def run(arguments: list[str] | None = None) -> int:
    try:
        return app(arguments, standalone_mode=False, prog_name="neuralcpm") or 0
    except UsageError as error:
        return _wrong_use(error)
    except UserError as error:
        return _refuse(str(error))
    except MemoryError as error:
        found = f" ({error})" if str(error) else ""
        return _refuse(
            f"More memory was asked for than there is{found}: use a smaller lattice, fewer states or chains."
        )
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return _refuse(f"There is no space left for {error.filename or 'what is printed'}: free space.")
        log = Path(tempfile.mkstemp(prefix="neuralcpm-", suffix=".log")[1])
        log.write_text(traceback.format_exc(), encoding="utf-8")
        print(f"neuralcpm: unexpected {type(error).__name__}: {error} (details in {log})", file=sys.stderr)
        return 1


def _wrong_use(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # a group of verbs without a verb: its message is its help
        print(error.format_message())
        return 2
    context = getattr(error, "ctx", None)
    verb = context.command_path if context is not None else "neuralcpm"
    return _refuse(f"{error.format_message().rstrip('.')} (see {verb} --help).")


def _refuse(sentence: str) -> int:
    print(f"neuralcpm: {' '.join(sentence.split())}", file=sys.stderr)
    return 2

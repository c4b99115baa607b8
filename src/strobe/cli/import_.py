"""`strobe import`: convert a public release or another format to a dataset folder. One command per format."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from strobe.cli.common import (
    click_option,
    counted,
    folder,
    json_option,
    k_option,
    made,
    made_json,
    progress,
    quiet_option,
    seed_option,
    warn_of,
)
from strobe.core.errors import printable
from strobe.formats.registry import IMPORT_FORMATS

if TYPE_CHECKING:
    from strobe.formats.registry import ImportFormat
    from strobe.formats.sampled import ImportedDataset


_FILE = click.Path(path_type=Path)
_media = (
    click.option(
        "--media", type=click.Choice(["copy", "link"]), default="copy", show_default=True,
        help="Copy the images, or hard-link them if the file system supports it.",
    ),
    click.option("--no-media", is_flag=True, help="Write only the tables, which are enough to score prediction files."),
    click.option("--hints", is_flag=True, help="Compute hints for reviewers (blur, motion, …) from the images."),
)  # fmt: skip


class _Formats(click.Group):
    """A group whose commands are the import formats. It reports an unknown command as a format."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(IMPORT_FORMATS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's signature)
        warn_of(IMPORT_FORMATS)
        with formatter.section("Commands"):
            formatter.write_dl(list(IMPORT_FORMATS.lines().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=IMPORT_FORMATS.line(name)) for name in IMPORT_FORMATS]
        return [one for one in found if one.value.startswith(incomplete)] + click.Command.shell_complete(
            self, ctx, incomplete
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click's signature)
        return _command(cmd_name, IMPORT_FORMATS[cmd_name])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in IMPORT_FORMATS:
            raise click.UsageError(f"no such format {printable(args[0])!r}; known: {', '.join(IMPORT_FORMATS)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    name="import",
    cls=_Formats,
    epilog="Example: strobe import imagenet-vid-robust downloads/imagenet-vid-robust data/vid",
)
def command() -> None:
    """Convert a dataset of another format to a dataset folder. Run the same command again to resume."""


def _command(name: str, form: "ImportFormat") -> click.Command:
    """Return the command of a format, with SRC, DST, the format's own options and the shared options."""

    def run(dst: Path, quiet: bool, as_json: bool, src: Path | None = None, **given: Any) -> None:
        from strobe.formats.sampled import ImportSampling
        from strobe.store.bring_media import ImportOptions
        from strobe.workflows.import_dataset import import_dataset

        say = progress(quiet=quiet or as_json)
        how = ImportOptions(progress=say)
        if form.media:
            mode, hints = given.pop("media"), given.pop("hints")
            how = ImportOptions(media="none" if given.pop("no_media") else mode, hints=hints, progress=say)
        draw = ImportSampling(k=given.pop("k"), seed=given.pop("seed")) if form.draw else None
        files = None if form.record is None else form.record(**given)
        done = import_dataset(name, src, dst, how=how, draw=draw, files=files, options=given)
        _print(done, dst, as_json=as_json)

    places = (click.argument("src", type=_FILE), click.argument("dst", type=folder(exists=False)))[form.fetched :]
    before, after = ((k_option,), (seed_option,)) if form.draw else ((), ())
    own = [click_option(option) for option in form.options]
    for add in reversed((*places, *own, *before, *(_media if form.media else ()), *after, quiet_option, json_option)):
        run = add(run)
    say = click.command(
        name,
        short_help=IMPORT_FORMATS.line(name),
        help=inspect.cleandoc(form.about),
        epilog=f"Example: strobe import {name} {form.example}",
    )
    return say(run)


def _print(done: "ImportedDataset", dst: Path, *, as_json: bool) -> None:
    dataset, source = done.dataset, done.dataset.info.label_source
    n_boxes = 0 if dataset.boxes is None else len(dataset.boxes.frame)
    if as_json:
        more = {"name": dataset.name, "label_source": source, "n_boxes": n_boxes, "notes": list(done.notes)}
        made_json(dst, dataset, more)
        return
    for note in done.notes:
        click.echo(f"note: {printable(note)}", err=True)
    boxes = "" if dataset.boxes is None else f", {counted(n_boxes, 'box')}"
    click.echo(f"{made(dst, dataset, 'video', 'set', 'frame', 'class')}{boxes}, labels by {source}")

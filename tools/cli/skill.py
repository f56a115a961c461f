"""engram skill: the agent skill, as a SKILL.md or as a section of an AGENTS.md, in English or Korean (CONTRACT §10)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

import click

from tools.cli.invocation import typed
from tools.cli.options import config_file, config_option, json_option
from tools.cli.output import as_json, give

LANGUAGES = ("en", "ko")
_FRONT_MATTER = re.compile(
    r"---\nname: (?P<name>\S+)\ndescription: (?P<description>[^\n]+)\n---\n\n(?P<body>.+)", re.DOTALL
)
_PURPOSE = re.compile(r'("purpose_ref": )"[^"]*"')
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^(#+ )", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Skill:
    """The skill in one language."""

    name: str
    description: str
    text: str  # the whole SKILL.md
    body: str  # without its front matter

    def agents_md(self) -> str:
        """Return it as a section that can stand in an AGENTS.md: no front matter, headings one level deeper."""
        parts = _FENCED.split(self.body)
        return "".join(part if part.startswith("```") else _HEADING.sub(r"#\1", part) for part in parts)


def read_skill(language: str, purpose_ref: str | None = None) -> Skill:
    """Return the skill in a language of ``LANGUAGES``, its commands as they are typed here.

    The example names the purpose that is given, or says where one is to be had.
    """
    text = typed((resources.files("tools.cli") / "guidance" / f"{language}.md").read_text(encoding="utf-8"))
    if purpose_ref is not None:
        named = as_json(purpose_ref)
        text = _PURPOSE.sub(lambda found: found[1] + named, text)
    found = _FRONT_MATTER.fullmatch(text)
    if found is None:
        raise ValueError("the skill's front matter is not as it should be")
    return Skill(found["name"], found["description"], text, found["body"])


def _purpose_ref() -> str | None:
    """Return the host file's first purpose, or None where there is no host file; one that was named must be usable."""
    from tools.host.exceptions import HostFileError
    from tools.host.file import load_host_file

    named = config_file()
    try:
        return load_host_file(named).purposes[0].ref
    except HostFileError:
        if named is not None:
            raise
        return None


@click.command()
@click.option("--agents-md", is_flag=True, help="Print a section for an AGENTS.md instead of a SKILL.md.")
@click.option("--lang", type=click.Choice(LANGUAGES), default=LANGUAGES[0], show_default=True, help="The language.")
@config_option
@json_option
def command(*, agents_md: bool, lang: str) -> None:
    """Print the agent skill: when to use the memory, how, and what to do when a call fails."""
    skill = read_skill(lang, _purpose_ref())
    text = (skill.agents_md() if agents_md else skill.text).rstrip("\n")
    give({"name": skill.name, "description": skill.description, "lang": lang, "text": text}, lambda: text)

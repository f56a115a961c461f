"""What the host binds of embeddings: the section of the host file as the settings of a provider."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from projections.vector.providers import settings
from projections.vector.providers.settings import Settings

if TYPE_CHECKING:
    from tools.host.sections import SemanticSection

PROVIDERS = settings.PROVIDERS


def settings_of(section: SemanticSection, folder: Path) -> Settings:
    """Return what the section says, as the providers take it (``projections.vector.providers.make``).

    Args:
        section: what the host file says.
        folder: what a relative path in it is relative to.
    """
    return Settings(
        provider=section.provider,
        model=section.model,
        endpoint=section.endpoint,
        dimension=section.dimension,
        api_key_env=section.api_key_env,
        folder=None if section.folder is None else Path(os.path.normpath(folder / Path(section.folder).expanduser())),
    )


def flaw_of(section: SemanticSection) -> tuple[str, str, str] | None:
    """Return key, reason and mend of the first thing that does not go together, or None. The provider is known."""
    flaw = settings.flaw_of(settings_of(section, Path()))
    return None if flaw is None else (f"semantic.{flaw.key}", flaw.reason, flaw.mend)

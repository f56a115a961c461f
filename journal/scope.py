"""The scope: the unit of order, isolation, hashing, backup and sharding."""

from __future__ import annotations

import unicodedata
from functools import cached_property, lru_cache

import msgspec
from blake3 import blake3

from journal import limits
from journal.canonical import canonical_bytes
from journal.errors import InvalidSchema

TAG_BYTES = 16


class Scope(msgspec.Struct, frozen=True, array_like=True, dict=True, forbid_unknown_fields=True):
    """One tenant's workspace. Both parts are NFC strings of 1 to 512 UTF-8 bytes."""

    tenant_id: str
    workspace_id: str

    @classmethod
    def of(cls, tenant_id: str, workspace_id: str) -> Scope:
        """Return the scope of these names.

        Raises:
            InvalidSchema: a name is empty, over 512 bytes, not NFC, or holds an unpaired surrogate.
        """
        for name in (tenant_id, workspace_id):
            if any("\ud800" <= character <= "\udfff" for character in name):
                raise InvalidSchema("a tenant or workspace name holds an unpaired surrogate")
            if not 1 <= len(name.encode()) <= limits.REF_MAX_BYTES or unicodedata.normalize("NFC", name) != name:
                raise InvalidSchema("a tenant or workspace name is empty, too long or not NFC")
        return cls(tenant_id, workspace_id)

    @cached_property
    def tag(self) -> bytes:
        """The 16-byte BLAKE3 of the canonical scope; every key starts with it (an LMDB key holds 511 bytes)."""
        return _tag(self.tenant_id, self.workspace_id)

    @cached_property
    def ref(self) -> str:
        """The opaque reference by which records name their scope (``scope_ref`` of the effective payload)."""
        return f"scope:{self.tag.hex()}"


@lru_cache(maxsize=1_024)
def _tag(tenant_id: str, workspace_id: str) -> bytes:
    """Return a scope's tag; remembered, for each decoded header brings a scope of its own."""
    return blake3(canonical_bytes({"tenant_id": tenant_id, "workspace_id": workspace_id})).digest(TAG_BYTES)

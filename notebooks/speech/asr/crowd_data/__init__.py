"""Recordings bought through an API: fetched whole, read row by row, made ready for training.

In reading order: sandbox, client, delivery, transcripts."""

from .client import AccessError, CrowdClient
from .delivery import delivery_zip, read_delivery
from .sandbox import CrowdServer
from .transcripts import leaks, manifest_entries, normalise, random_split, speaker_split

__all__ = ["AccessError", "CrowdClient", "CrowdServer", "delivery_zip", "leaks"]
__all__ += ["manifest_entries", "normalise", "random_split", "read_delivery", "speaker_split"]

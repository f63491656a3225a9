"""Recordings bought through an API: fetched whole, read row by row, made ready for training.

sandbox       the seller: a real HTTP server with tokens, deliverables and faults on purpose
client        the customer: tokens, retries, resumed and verified downloads
answers       what the client reads from HTTP answers
unpacking     the zip unpacked: all of it, or nothing if damaged or hostile
delivery      its table and sounds, every row good or told why not
transcripts   what people wrote, spelled in the network's letters
splits        training and test parts, and what they share
"""

from .client import AccessError, CrowdClient
from .delivery import delivery_zip, read_delivery
from .sandbox import CrowdServer
from .splits import leaks, random_split, speaker_split
from .transcripts import manifest_entries, normalise

__all__ = ["AccessError", "CrowdClient", "CrowdServer", "delivery_zip", "leaks"]
__all__ += ["manifest_entries", "normalise", "random_split", "read_delivery", "speaker_split"]

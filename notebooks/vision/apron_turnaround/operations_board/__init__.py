"""The operations board: a journal of reports, a live server, a camera's end of the line."""

from .camera_kill import known, moments
from .journal import Flight, Journal, Refused, Report, board
from .live_board import ALL, serve
from .sender import Sender, listen

__all__ = ["ALL", "Flight", "Journal", "Refused", "Report", "Sender"]
__all__ += ["board", "known", "listen", "moments", "serve"]

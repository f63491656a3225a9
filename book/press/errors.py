"""The one error that a user can mend; the press prints it without a traceback."""


class PressError(Exception):
    """Says what is wrong, what is allowed and how to mend it."""

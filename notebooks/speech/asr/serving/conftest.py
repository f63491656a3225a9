"""What tests of serving share with those of streaming."""

from streaming.conftest import loud_model  # noqa: F401

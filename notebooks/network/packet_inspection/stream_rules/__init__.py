"""YARA rules over a stream: parsed, compiled, matched across packets, written for Suricata."""

from .matcher import Matcher, Program, compile
from .rule_texts import Entry, Rule, read

__all__ = ["Entry", "Matcher", "Program", "Rule", "compile", "read"]

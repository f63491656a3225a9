"""Some twenty rules of our own, for what the published ones hardly use; all harmless.

EICAR's test file is what scanners agree to report though it is no virus.
"""

EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$" + "EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"

# name: (strings, condition)
PARTS = {
    "eicar": ('$a = "' + EICAR.replace("\\", "\\\\") + '"', "$a at 0 and filesize < 128"),
    "any_case": ('$a = "InspectMe" nocase', "$a"),
    "wide_text": ('$a = "secret" wide', "$a"),
    "both_widths": ('$a = "Token" wide ascii nocase', "$a"),
    "whole_word": ('$a = "key" fullword', "$a"),
    "whole_wide_word": ('$a = "key" wide fullword', "$a"),
    "escapes": (r'$a = "a\tb\x00\\\"c"', "$a"),
    "expression": (r"$a = /id=[0-9]{3,5};/", "$a"),
    "expression_choice": (r"$a = /(GET|POST) \/[a-z]+\.php/i", "$a"),
    "expression_start": (r"$a = /^%PDF-1\.[0-7]/", "$a"),
    "expression_end": (r"$a = /EOF\r?\n$/", "$a"),
    "jumps": ("$a = { 50 4B 03 04 [2-6] 08 ( 00 | 01 02 ) ?A }", "$a"),
    "not_this_byte": ("$a = { DE AD ~00 BE EF }", "$a"),
    "small": ('$a = "size"', "$a and filesize < 1KB"),
    "large": ('$a = "size"', "$a and filesize >= 1024"),
    "at_four": ('$a = "ftyp"', "$a at 4"),
    "in_front": ('$a = "magic"', "$a in (2..40)"),
    "two_of_three": ('$a1 = "one!" $a2 = "two!" $b = "tri!"', "2 of them and any of ($a*)"),
    "without": ('$a = "alpha" $b = "omega"', "$a and not $b"),
    "big_endian": ('$a = "body"', "uint32be(0) == 0xCAFEBABE and $a"),
    "no_string": ("", "uint16(0) == 0x8B1F and filesize > 10"),
    "one_byte": ("$a = { 7F } $b = { 45 4C 46 }", "$a at 0 and $b at 1"),
    "after_another": ('$a = "again"', "any_case and $a"),
}


def rule_text(name: str) -> str:
    """The rule as a text."""
    strings, condition = PARTS[name]
    return (
        f"rule {name} {{ {f'strings: {strings}' if strings else ''} condition: {condition} }}"
    )


def rule_texts() -> list[str]:
    return [rule_text(name) for name in PARTS]

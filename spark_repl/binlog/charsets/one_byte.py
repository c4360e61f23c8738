"""One-byte character sets as tables of 256 characters, equal to MySQL 9.7's conversion.

All bytes were compared with the server. Where Python's codec differs, the server's choice is below.
"""

from __future__ import annotations

from functools import lru_cache

# Marks a byte that has no character.
NONE = "\uffff"

_CODECS = {
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin1": "cp1252",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "swe7": "ascii",
    "tis620": "tis_620",
}
_DIFFERENCES = {
    "cp866": {0xFC: "\u207f", 0xFD: "\u00b2"},
    # Bytes that MySQL converts to a question mark, and Python to a letter.
    "cp1256": dict.fromkeys(b"\x8a\x8f\x98\x9a\x9f\xaa\xc0\xff", NONE),
    "greek": {0xA1: "\u02bd", 0xA2: "\u02bc", 0xA4: NONE, 0xA5: NONE, 0xAA: NONE},
    "hebrew": {0xAF: "\u203e"},
    "koi8u": {0x95: "\u2022"},
    # MySQL's latin1 is cp1252, whose five holes it fills with the C1 control of that number.
    "latin1": {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
    "swe7": dict(zip(b"@[\\]^`{|}~\x7f", "ÉÄÖÅÜéäöåü" + NONE, strict=True)),
}
# Sets without a codec in Python: the last 128 characters, or the last 96, which follow the C1
# controls.
_UPPER = {
    "armscii8": (
        "\xa0❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎ"
        "վՏտՐրՑցՒւՓփՔքՕօՖֆ’'"
    ),
    "dec8": (
        "\xa0¡¢£\uffff¥\uffff§¤©ª«\uffff\uffff\uffff\uffff°±²³\uffffµ¶·\uffff¹º»¼½\uffff¿"
        "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏ\uffffÑÒÓÔÕÖŒØÙÚÛÜŸ\uffffßàáâãäåæçèéêëìíîï\uffffñòóôõöœøùúûüÿ"
        "\uffff\uffff"
    ),
    "geostd8": (
        "€\uffff‚\uffff„…†‡\uffff‰\uffff‹\uffff\uffff\uffff\uffff\uffff‘’“”•–—\uffff"
        "\uffff\uffff›\uffff\uffff\uffff\uffff\xa0¡¢£¤¥¦§¨©ª«¬\xad®¯°±²³´µ¶·¸¹º»¼½¾¿აბგდე"
        "ვზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ\uffff\uffff\uffff\uffff\uffff\uffff\uffff"
        "\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff\uffff"
        "\uffff\uffff\uffff№\uffff\uffff"
    ),
    "hp8": (
        "\xa0ÀÂÈÊËÎÏ´ˋˆ¨˜ÙÛ₤¯Ýý°ÇçÑñ¡¿¤£¥§ƒ¢âêôûáéóúàèòùäëöüÅîØÆåíøæÄìÖÜÉïßÔÁÃãÐðÍÌÓÒÕõŠš"
        "ÚŸÿÞþ·µ¶¾—¼½ªº«■»±\uffff"
    ),
    "keybcs2": (
        "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧"
        "╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0"
    ),
}


@lru_cache
def one_byte_table(charset: str) -> str | None:
    """Return the 256 characters of a one-byte character set, with NONE for each undefined byte.
    Return None for other sets."""
    lower = "".join(map(chr, range(128)))
    if charset in _UPPER:
        upper = _UPPER[charset]
        return lower + "".join(map(chr, range(128, 256 - len(upper)))) + upper
    if charset not in _CODECS:
        return None
    chars = [bytes((byte,)).decode(_CODECS[charset], "ignore") or NONE for byte in range(256)]
    for byte, char in _DIFFERENCES.get(charset, {}).items():
        chars[byte] = char
    return "".join(chars)

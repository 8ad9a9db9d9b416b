"""Derive Wordle's word lists from SCOWL, the Spell Checker Oriented Word Lists.

Answers are SCOWL's common words (sizes 10 to 40) in American spelling, without plain plurals, -s
verb forms and -ed past forms: dictionary forms, as in the newspaper's game. Guesses are every
answer and every word of sizes up to 80 in any English spelling. Offensive words are in neither.

The output depends on SCOWL's version alone; the committed lists come from 2020.12.07, which Debian
packages as `scowl`.
"""

import argparse
import codecs
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
CHECKSUMS = HERE / "SHA256SUMS"
DEBIAN_SCOWL = Path("/usr/share/dict/scowl")

ANSWER_SPELLINGS = ("english", "american")
ANSWER_SIZES = (10, 20, 35, 40)
STEM_SIZES = (*ANSWER_SIZES, 50, 55, 60, 70)
GUESS_SPELLINGS = (
    *ANSWER_SPELLINGS,
    "british",
    "british_z",
    "canadian",
    "australian",
    "variant_1",
    "variant_2",
)
GUESS_SIZES = (*STEM_SIZES, 80)

# Slurs, vulgar and sexual words, under rot13 so that nobody has to read them by accident.
OFFENSIVE = """
nefrq nefrf ovzob ovagf ovgpu obpur obare obbof obbol obbat puvax pyvgf pbpxf pbbpu pbbyl
pbbaf phagf qntbf qnexl qvpxf qvxrf qvxrl qvyqb qlxrq qlxrf qlxrl snttl sntbg snaal snegf
sevtf shpxf tvzcf tvzcl tvcfl tbyyl tbbxf tbbxl tblvz tlccb tlcfl urorf ubzbf ubaxl ubeal
uhffl wrjrq wvfzf xnsve xvxrf xenhg ynovn yrfob yrmrf yrmml yhoen ylapu znzzl zvpxf zvysf
zvatr zbatf zhagf anapr anapl anmvf arteb avttn abapr abbxl cravf creir creif cvzcf cbzzl
cbapr cbapl cbbsf cbbsl cbbaf cbbir cbbil cbeab cbeaf cbeal cbhss cevpx chorf chovp chffl
dhrna dhrre dhvzf encrq encre encrf eravt fnzob frzra frkrq frkre frkgf funtf fuvgf fughc
fvffl fxnax fyntf fynir fyhgf fbqbz fcnmm fcrez fcvpx fcvpf fdhnj gnvtf gnegf gnegl gvggl
gheqf gjngf ihyin jnaxf jryfu jrapu juber lbavf mvtna
"""


def read_scowl(folder: Path, spellings: Iterable[str], sizes: Iterable[int]) -> set[str]:
    """The all-lower-case words of SCOWL's files for these spellings and sizes."""
    words: set[str] = set()
    for spelling in spellings:
        for size in sizes:
            text = (folder / f"{spelling}-words.{size}").read_text(encoding="utf-8")
            words.update(re.findall(r"^[a-z]+$", text, flags=re.MULTILINE))
    return words


def is_inflected(word: str, stems: set[str]) -> bool:
    """Whether the word is an -s or -ed form of a stem: "boxes", "tried"; not "glass", "speed"."""
    if word.endswith("s") and not word.endswith("ss"):
        candidates = {word[:-1], re.sub("es$", "", word), re.sub("ies$", "y", word)}
    elif word.endswith("ed") and not word.endswith("eed"):
        candidates = {word[:-1], word[:-2], re.sub("ied$", "y", word)}
    else:
        return False
    return not stems.isdisjoint(candidates - {word})


def derive(scowl: Path) -> dict[str, str]:
    """The text of each list, by file name."""
    offensive = set(codecs.decode(OFFENSIVE, "rot13").split())
    stems = read_scowl(scowl, ANSWER_SPELLINGS, STEM_SIZES)
    common = read_scowl(scowl, ANSWER_SPELLINGS, ANSWER_SIZES) - offensive
    legal = read_scowl(scowl, GUESS_SPELLINGS, GUESS_SIZES) - offensive
    answers = sorted(word for word in common if len(word) == 5 and not is_inflected(word, stems))
    guesses = sorted(word for word in legal if len(word) == 5)
    return {"answers.txt": "\n".join(answers) + "\n", "guesses.txt": "\n".join(guesses) + "\n"}


def checksums(texts: dict[str, str]) -> str:
    """The lists' checksums in the format of sha256sum."""
    return "".join(
        f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in texts.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python envs/wordle/lists/derive.py --check",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--scowl",
        type=Path,
        default=DEBIAN_SCOWL,
        metavar="DIR",
        help="folder with SCOWL's final word lists (default: %(default)s)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing: compare the committed lists with SHA256SUMS (needs no SCOWL)",
    )
    options = parser.parse_args()

    if options.check:
        committed = {
            name: (HERE / name).read_text(encoding="ascii")
            for name in ("answers.txt", "guesses.txt")
        }
        if checksums(committed) != CHECKSUMS.read_text(encoding="ascii"):
            parser.exit(2, f"error: lists in {HERE} differ from {CHECKSUMS.name}: derive again\n")
        print("answers.txt and guesses.txt agree with SHA256SUMS")
        return

    if not (options.scowl / "english-words.10").is_file():
        parser.exit(2, f"error: no SCOWL in {options.scowl}: install `scowl` or give --scowl\n")
    texts = derive(options.scowl)
    for name, text in texts.items():
        (HERE / name).write_text(text, encoding="ascii")
        print(f"{name}: {len(text.split()):,} words")
    CHECKSUMS.write_text(checksums(texts), encoding="ascii")


if __name__ == "__main__":
    main()

"""Build of sdist and wheel, the same bytes each time.

``python -m tests.package.build DIST`` builds both twice, compares the bytes, and leaves one build
in DIST. All times are those of the last commit, or SOURCE_DATE_EPOCH. Setuptools keeps the files'
own times, owners and modes in a source distribution, so it is packed again here. The wheel is built
from it, by the setuptools of constraints.txt.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def _epoch() -> int:
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "log", "-1", "--format=%ct"]
    said = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    return int(said.stdout)


def _tree(source: Path) -> list[str]:
    """The files that are, or would be, in the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    said = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    return [name for name in said.stdout.split("\0") if name and (source / name).is_file()]


def build(source: Path, dist: Path, epoch: int) -> list[Path]:
    """Build ``source`` into the empty folder ``dist``, and return the files."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "build", "--no-isolation", "--quiet", "--outdir", str(dist)]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "source"
        for name in _tree(source):
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, work / name)
        subprocess.run([*command, "--sdist", str(work)], env=environment, check=True)
        (made,) = dist.glob("*.tar.gz")
        made.write_bytes(packed_again(made.read_bytes(), epoch))
        with tarfile.open(made) as archive:
            archive.extractall(Path(folder) / "unpacked", filter="data")
        (unpacked,) = (Path(folder) / "unpacked").iterdir()
        subprocess.run([*command, "--wheel", str(unpacked)], env=environment, check=True)
    return sorted(dist.iterdir())


def packed_again(archive: bytes, epoch: int) -> bytes:
    """Return a tar.gz with the same files in the order of their names, all of one time, owner and
    mode."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=epoch) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.pax_headers = {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def main() -> int:
    dist, epoch = Path(sys.argv[1]), _epoch()
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory() as again:
        pairs = zip(build(_ROOT, dist, epoch), build(_ROOT, Path(again), epoch), strict=True)
        for one, other in pairs:
            digest = hashlib.sha256(one.read_bytes()).hexdigest()
            if hashlib.sha256(other.read_bytes()).hexdigest() != digest:
                print(f"Error: two builds of {one.name} differ", file=sys.stderr)
                return 1
            print(f"{digest}  {one.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

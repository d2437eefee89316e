# SPDX-License-Identifier: MIT
"""Every kind of change to a served tree, one after the other, and the answers that are required from then on.

A kind is a generator: kind(place) makes one complete change at each step and yields {target: want}.  A target is a
path, or (path, what the client accepts).  A want is the body of a 200, another status, a (status, body), or a function
of the reply that says whether it is right.  No two versions of a file have the same bytes.
"""
import ctypes
import itertools
import mmap
import os
import shutil

from .codings import is_file

TURNS = 40
SIZE = 600  # of most files; small enough to be sent together with the head
OLD, OLDER, NEWER = 1_600_000_000, 1_500_000_000, 1_600_000_060
HERE, FOLLOW = -100, 0x400  # AT_FDCWD, AT_SYMLINK_FOLLOW
EXCHANGE = 2  # renameat2(2)
PUNCH_HOLE = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
libc = ctypes.CDLL(None, use_errno=True)
serial = itertools.count()


def version(size=SIZE):
    """Bytes that no file has had before."""
    line = b"version %d of what is served here\n" % next(serial)
    return (line * (size // len(line) + 1))[:size]


class Place:
    """Two folders on one disk for one test: one that is served, at that path below the root, and one outside it."""

    def __init__(self, root, outside, at=""):
        self.folder, self.elsewhere, self.at = os.path.join(root, at.lstrip("/")), outside, at
        os.makedirs(self.folder, exist_ok=True)
        os.makedirs(self.elsewhere, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def outside(self, name):
        return os.path.join(self.elsewhere, name)

    def url(self, name):
        return f"{self.at}/{name}"

    def write(self, name, data=None, mtime=None):
        """Put a whole file in the place of anything that has the name."""
        data = version() if data is None else data
        put(self.path(name) + ".new", data, mtime)
        os.replace(self.path(name) + ".new", self.path(name))
        return data


def put(path, data, mtime=None):
    """Write in place, without truncation: while a file of the same size is written, no reader sees a shorter one."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    os.pwrite(fd, data, 0)
    if os.fstat(fd).st_size != len(data):
        os.ftruncate(fd, len(data))
    os.close(fd)
    if mtime is not None:
        os.utime(path, (mtime, mtime))
    return data


def call(number, what):
    if number < 0:
        raise OSError(ctypes.get_errno(), what)


def exchange(one, other):
    call(libc.renameat2(HERE, one.encode(), HERE, other.encode(), EXCHANGE), "renameat2")


# --- bytes of a file ------------------------------------------------------------------------------------------------


def same_size(place):
    place.write("file")
    fd = os.open(place.path("file"), os.O_WRONLY)
    for _ in range(TURNS):
        data = version()
        os.pwrite(fd, data, 0)
        yield {place.url("file"): data}
    os.close(fd)


def opened_anew(place):
    for _ in range(TURNS):
        data = version()
        with open(place.path("file"), "wb") as out:
            out.write(data)
        yield {place.url("file"): data}


def append(place):
    data = place.write("file", version(40))
    for _ in range(TURNS):
        more = version(70)
        with open(place.path("file"), "ab") as out:
            out.write(more)
        data += more
        yield {place.url("file"): data}


def truncate(place):
    data = place.write("file")
    for size in range(TURNS):
        os.truncate(place.path("file"), size)
        data = data[:size]
        yield {place.url("file"): data}
        os.truncate(place.path("file"), SIZE)
        data += bytes(SIZE - size)
        yield {place.url("file"): data}
        data = place.write("file")


def times_set_back(place):
    """The bytes change, but neither their size nor their modification time does."""
    for _ in range(TURNS):
        yield {place.url("file"): put(place.path("file"), version(), OLD)}


def times_alone(place):
    place.write("file")
    for i in range(TURNS):
        os.utime(place.path("file"), (OLD, OLD + i))
        date = "Sun, 13 Sep 2020 12:26:%02d GMT" % (40 + i) if i < 20 else "Sun, 13 Sep 2020 12:27:%02d GMT" % (i - 20)
        yield {place.url("file"): lambda reply, date=date: reply.status == 200 and reply["last-modified"] == date}


def other_calls(place):
    """Calls other than write(2) that change bytes."""
    base = put(place.outside("source"), version())
    place.write("file", base)
    fd, source = os.open(place.path("file"), os.O_RDWR), os.open(place.outside("source"), os.O_RDWR)
    reader, writer = os.pipe()
    for _ in range(TURNS // 4):
        data = version()
        os.pwrite(source, data, 0)
        assert os.copy_file_range(source, fd, SIZE, 0, 0) == SIZE
        yield {place.url("file"): data}
        data = version()
        os.pwrite(source, data, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        assert os.sendfile(fd, source, 0, SIZE) == SIZE
        yield {place.url("file"): data}
        data = version()
        os.write(writer, data)
        call(libc.splice(reader, None, fd, ctypes.byref(ctypes.c_long(0)), ctypes.c_size_t(SIZE), 0), "splice")
        yield {place.url("file"): data}
        call(libc.fallocate(fd, PUNCH_HOLE, ctypes.c_long(100), ctypes.c_long(200)), "fallocate")
        yield {place.url("file"): data[:100] + bytes(200) + data[300:]}
        os.posix_fallocate(fd, 0, SIZE + 50)
        yield {place.url("file"): data[:100] + bytes(200) + data[300:] + bytes(50)}
        os.ftruncate(fd, SIZE)
    for one in (fd, source, reader, writer):
        os.close(one)


def mapping(place):
    """Stores through a shared mapping count when it is unmapped, although the descriptor was closed before."""
    place.write("file", bytes(4096))
    for _ in range(TURNS):
        fd = os.open(place.path("file"), os.O_RDWR)
        shared = mmap.mmap(fd, 4096)
        os.close(fd)
        data = shared[:4096] = version(4096)
        shared.close()
        yield {place.url("file"): data}


def old_descriptor(place):
    """The file's writer opened it under another name, before it got this one."""
    for _ in range(TURNS):
        put(place.outside("before"), version())
        fd = os.open(place.outside("before"), os.O_WRONLY)
        os.replace(place.outside("before"), place.path("file"))
        data = version()
        os.pwrite(fd, data, 0)
        yield {place.url("file"): data}
        data = version()
        os.pwrite(fd, data, 0)
        os.close(fd)
        yield {place.url("file"): data}


def long_and_short(place):
    """A file grows beyond the size that any cache keeps of one file, and shrinks again."""
    for i in range(TURNS // 4):
        yield {place.url("file"): put(place.path("file"), version(200_000 + i % 2 * 150_000))}
        yield {place.url("file"): place.write("file", version(350_000 - i % 2 * 150_000))}


# --- names ----------------------------------------------------------------------------------------------------------


def replaced(place):
    for _ in range(TURNS):
        yield {place.url("file"): place.write("file")}


def exchanged(place):
    one, other = place.write("one"), place.write("other")
    for _ in range(TURNS):
        exchange(place.path("one"), place.path("other"))
        one, other = other, one
        yield {place.url("one"): one, place.url("other"): other}


def removed_and_made(place):
    for _ in range(TURNS):
        yield {place.url("file"): put(place.path("file"), version())}
        os.unlink(place.path("file"))
        yield {place.url("file"): 404}


def moved_away_and_back(place):
    data = place.write("file")
    for _ in range(TURNS // 2):
        os.rename(place.path("file"), place.outside("file"))
        yield {place.url("file"): 404}
        os.rename(place.outside("file"), place.path("file"))
        yield {place.url("file"): data}
        os.rename(place.path("file"), place.path("another"))
        yield {place.url("file"): 404, place.url("another"): data}
        os.rename(place.path("another"), place.path("file"))
        yield {place.url("file"): data, place.url("another"): 404}


def hard_links(place):
    """Bytes are written through another name of the same file: below the root, outside it, or removed since."""
    for _ in range(TURNS // 3):
        place.write("file")
        for other in (place.path("second"), place.outside("link")):
            os.link(place.path("file"), other)
            yield {place.url("file"): put(other, version())}
            fd = os.open(other, os.O_WRONLY)
            os.unlink(other)
            data = version()
            os.pwrite(fd, data, 0)
            os.close(fd)
            yield {place.url("file"): data, place.url("second"): 404}


def linked_in(place):
    """A file that had no name, or another, gets this one; and is written to afterwards."""
    for _ in range(TURNS // 2):
        fd = os.open(place.elsewhere, os.O_TMPFILE | os.O_WRONLY, 0o644)
        data = version()
        os.pwrite(fd, data, 0)
        call(libc.linkat(HERE, b"/proc/self/fd/%d" % fd, HERE, place.path("file").encode(), FOLLOW), "linkat")
        yield {place.url("file"): data}
        data = version()
        os.pwrite(fd, data, 0)
        os.close(fd)
        yield {place.url("file"): data}
        os.unlink(place.path("file"))
        yield {place.url("file"): 404}


def modes(place):
    data = place.write("file")
    for _ in range(TURNS):
        os.chmod(place.path("file"), 0)
        yield {place.url("file"): 403}
        os.chmod(place.path("file"), 0o644)
        yield {place.url("file"): data}


def symbolic_links(place):
    """A link is swapped, then its target is changed; the same for a link to a folder."""
    for name in ("a", "b"):
        place.write(name)
        os.makedirs(place.path(f"d{name}"), exist_ok=True)
    for i in range(TURNS // 2):
        name = "ab"[i % 2]
        for link, target in (("link", name), ("folder", f"d{name}")):
            os.symlink(target, place.path("new"))
            os.replace(place.path("new"), place.path(link))
        data, below = place.write(name), put(place.path(f"d{name}/file"), version())
        yield {place.url("link"): data, place.url("folder/file"): below}
        data, below = put(place.path(name), version()), place.write(f"d{name}/file")
        yield {place.url("link"): data, place.url("folder/file"): below}
        os.unlink(place.path("link"))
        os.unlink(place.path("folder"))
        yield {place.url("link"): 404, place.url("folder/file"): 404}


def other_things(place):
    """The file is replaced by a pipe, a link that leads out of the root, a folder, and a file again."""
    path = place.path("file")
    put(place.outside("secret"), b"secret")
    for _ in range(TURNS // 4):
        yield {place.url("file"): put(path, version())}
        os.unlink(path)
        os.mkfifo(path)
        yield {place.url("file"): 403}
        os.unlink(path)
        os.symlink(os.path.relpath(place.outside("secret"), place.folder), path)
        yield {place.url("file"): 403}
        os.unlink(path)
        os.mkdir(path)
        yield {place.url("file"): 301, place.url("file/"): is_listing}
        os.rmdir(path)


# --- folders --------------------------------------------------------------------------------------------------------


def folder_moved(place):
    data = put(place.path("folder/file"), version())
    for _ in range(TURNS):
        os.rename(place.path("folder"), place.path("moved"))
        yield {place.url("folder/file"): 404, place.url("moved/file"): data}
        os.rename(place.path("moved"), place.path("folder"))
        yield {place.url("folder/file"): data, place.url("moved/file"): 404}


def folder_above_moved(place):
    data = put(place.path("top/middle/low/file"), version())
    for _ in range(TURNS // 2):
        os.rename(place.path("top"), place.outside("top"))
        yield {place.url("top/middle/low/file"): 404}
        put(place.outside("top/middle/low/file"), data := version())
        yield {place.url("top/middle/low/file"): 404}
        os.rename(place.outside("top"), place.path("top"))
        yield {place.url("top/middle/low/file"): data}


def folder_exchanged(place):
    """Another folder with the same names takes its place, which changes no file."""
    here = put(place.path("folder/in/file"), version())
    there = put(place.path("spare/in/file"), version())
    for _ in range(TURNS):
        exchange(place.path("folder"), place.path("spare"))
        here, there = there, here
        yield {place.url("folder/in/file"): here}


def folder_removed(place):
    for _ in range(TURNS // 2):
        yield {place.url("folder/in/file"): put(place.path("folder/in/file"), version())}
        shutil.rmtree(place.path("folder"))
        yield {place.url("folder/in/file"): 404, place.url("folder"): 404}
        os.makedirs(place.path("folder"))
        yield {place.url("folder/in/file"): 404, place.url("folder"): 301}


def folder_replaced_by_file(place):
    """There is nothing below a file; and the redirect to a folder ends when the folder is removed."""
    for _ in range(TURNS // 2):
        below = put(place.path("thing/file"), version())
        yield {place.url("thing/file"): below, place.url("thing"): 301}
        shutil.rmtree(place.path("thing"))
        yield {place.url("thing/file"): 404, place.url("thing"): put(place.path("thing"), version())}
        os.unlink(place.path("thing"))
        yield {place.url("thing/file"): 404, place.url("thing"): 404}


def folder_becomes_link(place):
    """A path goes through a folder, and then through a link to another one."""
    linked = put(place.path("other/file"), version())
    for _ in range(TURNS // 2):
        below = put(place.path("folder/file"), version())
        yield {place.url("folder/file"): below}
        shutil.rmtree(place.path("folder"))
        os.symlink("other", place.path("folder"))
        yield {place.url("folder/file"): linked}
        yield {place.url("folder/file"): (linked := put(place.path("other/file"), version()))}
        os.unlink(place.path("folder"))
        yield {place.url("folder/file"): 404}


def is_listing(reply):
    return reply.status == 200 and b"<title>" in reply.body and b"version" not in reply.body


def index_page(place):
    os.makedirs(place.path("folder"), exist_ok=True)
    target = place.url("folder/")
    for _ in range(TURNS // 2):
        yield {target: put(place.path("folder/index.html"), version())}
        yield {target: place.write("folder/index.html")}
        os.chmod(place.path("folder/index.html"), 0)
        yield {target: 403}
        os.unlink(place.path("folder/index.html"))
        yield {target: is_listing}


def listing(place):
    os.makedirs(place.path("folder"), exist_ok=True)

    def names(*expected):
        return lambda reply: is_listing(reply) and all((b">%s<" % name.encode() in reply.body) == (name in expected)
                                                       for name in ("one", "two"))
    for _ in range(TURNS // 2):
        put(place.path("folder/one"), b"")
        yield {place.url("folder/"): names("one")}
        os.rename(place.path("folder/one"), place.path("folder/two"))
        yield {place.url("folder/"): names("two")}
        os.unlink(place.path("folder/two"))
        yield {place.url("folder/"): names()}


# --- other files that an answer depends on --------------------------------------------------------------------------


def coded(coding):
    """A want: that body, in that coding."""
    return lambda data: lambda reply: (reply.status == 200 and reply.body == data and reply.get("content-encoding") == coding and
                                       (coding is None or reply["vary"].lower() == "accept-encoding"))


def siblings(place):
    """NAME.gz made, changed, removed, older and newer than NAME; there is a NAME.zst all the time."""
    target, gzip, plain = place.url("text.txt"), coded("gzip"), coded(None)
    data = place.write("text.txt", mtime=OLD)
    place.write("text.txt.zst", mtime=NEWER)

    def both(gz):
        return {(target, "gzip"): gz, (target, "identity"): plain(data)}
    for _ in range(TURNS // 4):
        yield both(gzip(place.write("text.txt.gz", mtime=OLD)))
        yield both(gzip(put(place.path("text.txt.gz"), version(), OLD)))
        os.utime(place.path("text.txt.gz"), (OLDER, OLDER))
        yield both(plain(data))
        os.utime(place.path("text.txt.gz"), (NEWER, NEWER))
        with open(place.path("text.txt.gz"), "rb") as file:
            yield both(gzip(file.read()))
        data = put(place.path("text.txt"), version())  # now, so it is the newest
        yield both(plain(data))
        os.utime(place.path("text.txt"), (OLD, OLD))
        os.unlink(place.path("text.txt.gz"))
        yield both(is_file(data))


def sibling_goes(place):
    """The last sibling is removed: nothing then says that the answer varies."""
    data = place.write("text.txt", mtime=OLD)
    for _ in range(TURNS // 8):
        for suffix, name in ((".gz", "gzip"), (".zst", "zstd"), (".br", "br")):
            there = place.write("text.txt" + suffix, mtime=OLD)
            yield {(place.url("text.txt"), name): lambda reply, there=there: reply.body == there or is_file(data)(reply)}
            os.unlink(place.path("text.txt" + suffix))
            yield {(place.url("text.txt"), name): is_file(data)}


def error_page(place):
    """404.html, which is used in the root only."""
    target = place.url("missing")

    def own(reply):
        return reply.status == 404 and b"version" not in reply.body
    for _ in range(TURNS // 2):
        yield {target: (404, put(place.path("404.html"), version()))}
        yield {target: (404, place.write("404.html"))}
        os.chmod(place.path("404.html"), 0)
        yield {target: own}
        os.unlink(place.path("404.html"))
        yield {target: own}


def one_of_many(place):
    """One of many files changes; the others stay as they were."""
    names = [f"folder{i % 4}/file{i}" for i in range(64)]
    data = {name: put(place.path(name), version()) for name in names}
    for i in range(2 * TURNS):
        one = names[i * 37 % len(names)]
        data[one] = put(place.path(one), version())
        asked = {one, names[i % len(names)], names[(i + 1) % len(names)]}
        yield {place.url(name): data[name] for name in asked}


SHRINKING = [append, truncate, other_calls, opened_anew, long_and_short]  # perhaps while the file is being sent
ROOTED = [error_page]
# Every eighth kind is core: bytes, a name, a folder, a sibling.
KINDS = [same_size, replaced, modes, error_page, times_set_back, exchanged, hard_links, linked_in,
         removed_and_made, folder_above_moved, folder_exchanged, folder_removed, index_page, listing, symbolic_links,
         other_things,
         folder_moved, folder_replaced_by_file, folder_becomes_link, old_descriptor, one_of_many, mapping, times_alone,
         opened_anew,
         siblings, append, truncate, other_calls, moved_away_and_back, sibling_goes, long_and_short]


# --- judging --------------------------------------------------------------------------------------------------------


def is_right(reply, want):
    if callable(want):
        return want(reply)
    if isinstance(want, bytes):
        want = (200, want)
    if isinstance(want, int):
        return reply.status == want
    return (reply.status, reply.body) == want

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Programs that people have: zipfile, sqlite3, tar, cp, rsync, sha256sum, grep,
# find -newer, mmap and sendfile of python, executables, read through a cold
# mount as from the disk.
. "${top_srcdir:-.}/tests/lib.sh"
. "$top_srcdir/tests/traffic.sh"
requires fuse root nginx python3 rsync tar

mkdir -p tree/text tree/bin
cp -a /usr/include/linux tree/text/ 2> /dev/null || cp -a /usr/include tree/text/
cp -L "$(command -v cat)" tree/bin/cat
python3 - <<'PYTHON'
import os, sqlite3, zipfile
with zipfile.ZipFile("tree/archive.zip", "w", zipfile.ZIP_DEFLATED) as z:
    for i in range(300):
        z.writestr(f"dir/{i}.txt", f"line {i}\n" * 2000)
    z.writestr("raw", os.urandom(3000000))
db = sqlite3.connect("tree/data.db")
db.execute("create table t (id integer primary key, name text, blob blob)")
db.executemany("insert into t values (?, ?, ?)",
               ((i, f"name {i}", os.urandom(300)) for i in range(20000)))
db.execute("create index by_name on t (name)")
db.commit()
PYTHON
publish_tree tree mirror programs
start_nginx mirror
mount_dataset "$nginx_url#programs" mnt

python3 -m zipfile -t mnt/archive.zip | grep -qx 'Done testing'
python3 -m zipfile -e mnt/archive.zip out
[ "$(wc -l < out/dir/299.txt)" = 2000 ]

query="select count(*), sum(length(blob)) from t; select id from t where
	name = 'name 12345'; pragma integrity_check;"
python3 - "$query" <<'PYTHON'
import sqlite3, sys
def run(path):
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    return [db.execute(q).fetchall() for q in sys.argv[1].split(";") if q.strip()]
assert run("mnt/data.db") == run("tree/data.db")
assert run("mnt/data.db")[2] == [("ok",)]
PYTHON
if command -v sqlite3 > /dev/null; then
	sqlite3 -readonly mnt/data.db "$query" > a
	sqlite3 -readonly tree/data.db "$query" | cmp - a
fi

tar -C mnt -cf - . | tar -C tree --compare -f - || fail "tar"
mkdir copy
tar -C mnt --format=posix --sparse -cf - . | tar -C copy -xf -
compare_trees tree copy
rm -rf copy && cp -a mnt copy
compare_trees tree copy
rm -rf copy && cp -r --sparse=always mnt copy && diff -r tree copy
rm -rf copy && rsync -aS mnt/ copy/
compare_trees tree copy
rsync -ac --dry-run --itemize-changes mnt/ tree/ | grep . &&
	fail "rsync sees differences"
(cd tree && find . -type f -exec sha256sum {} +) > sums
(cd mnt && sha256sum --quiet -c ../sums)
[ "$(grep -rl include mnt/text | wc -l)" = "$(grep -rl include tree/text | wc -l)" ]
[ "$(find mnt -newer tree/text | wc -l)" = "$(find tree -newer tree/text | wc -l)" ]
[ "$(mnt/bin/cat mnt/archive.zip | wc -c)" = "$(stat -c %s tree/archive.zip)" ]

python3 - <<'PYTHON'
import mmap, os
with open("mnt/archive.zip", "rb") as f, open("tree/archive.zip", "rb") as g:
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
    assert m[:] == g.read() and m.find(b"PK\5\6") > 0
    out = os.open("sent", os.O_WRONLY | os.O_CREAT, 0o600)
    size, at = len(m), 0
    while at < size:
        at += os.sendfile(out, f.fileno(), at, size - at)
PYTHON
cmp sent tree/archive.zip

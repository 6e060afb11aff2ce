# SPDX-License-Identifier: Apache-2.0
"""pty-run.py PATTERN COMMAND...

Runs it on a terminal of 160 columns. Ctrl-C once the output matches; '' never.
What it says is in the file "said".
"""
import fcntl, os, pty, re, struct, sys, termios
pattern = sys.argv[1].encode()
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
said = b""
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    if not part:
        break
    said += part
    if pattern and re.search(pattern, said):
        os.write(fd, b"\x03")
        pattern = b""
open("said", "wb").write(said)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

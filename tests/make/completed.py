# SPDX-License-Identifier: MIT
"""completed.py - what a shell offers for a line that ends at the cursor, as a person would see it after a tab.

bash is given the words, as its own completion gives them to a function.  zsh is a real one on a terminal, whose compadd
notes what is offered.  fish can be asked.  `load` is a line of the shell that makes its completions known.
"""
import os
import pty
import shlex
import signal
import subprocess
import time

PATIENCE = 60
ZSH = """PROMPT= PS2= ; setopt no_beep
autoload -Uz compinit && compinit -u -d $SCRATCH/dump
{load}
compadd() {{
    local -a hits
    if (( ${{@[(I)-*[ADO]]}} )); then builtin compadd "$@"; return; fi
    builtin compadd -A hits "$@"
    local status_=$?
    print -rl -- $hits >>$SCRATCH/hits
    builtin compadd "$@"
}}
zle -C offered complete-word _main_complete
ask() {{
    BUFFER=$(<$SCRATCH/line)
    BUFFER=${{BUFFER%$'\\x01'}}
    CURSOR=$#BUFFER
    zle offered
    BUFFER=
    : >$SCRATCH/done
}}
zle -N ask
bindkey '^X' ask
print >>$SCRATCH/ready
"""


def bash(load, line, folder, env):
    """The functions that completion would call, with COMP_WORDS made from the line."""
    words = shlex.split(line) + [""] * line.endswith(" ")
    program = os.path.basename(words[0])
    script = (f"{load}\nset -u\nCOMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}; "
              f"_{program.replace('-', '_')}; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    out = subprocess.run(["bash", "--norc", "-c", script], stdout=subprocess.PIPE, cwd=folder, env=env, text=True, check=True,
                         timeout=PATIENCE)
    return set(filter(None, out.stdout.split("\n")))


def fish(load, line, folder, env):
    out = subprocess.run(["fish", "--no-config", "-c", f"{load}\ncomplete -C {shlex.quote(line)}"], stdout=subprocess.PIPE, cwd=folder,
                         env=env, text=True, check=True, timeout=PATIENCE)
    return {row.split("\t")[0].rstrip("/") for row in out.stdout.splitlines()}


def wait_for(path):
    end = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.01)


def zsh(load, lines, folder, env, scratch):
    """Several lines, in one shell: {line: what is offered}.  scratch is an empty folder."""
    with open(f"{scratch}/rc", "w", encoding="utf-8") as file:
        file.write(ZSH.format(load=load))
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**env, "SCRATCH": str(scratch), "TERM": "dumb"})
    try:
        os.write(terminal, f". {scratch}/rc\n".encode())
        wait_for(f"{scratch}/ready")
        return {line: asked(terminal, line, scratch) for line in lines}
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def asked(terminal, line, scratch):
    with open(f"{scratch}/line", "w", encoding="utf-8") as file:
        file.write(line + "\x01")  # otherwise the shell would take the last space away
    os.write(terminal, b"\x18")
    wait_for(f"{scratch}/done")
    os.unlink(f"{scratch}/done")
    if not os.path.exists(f"{scratch}/hits"):
        return set()
    with open(f"{scratch}/hits", encoding="utf-8") as file:
        found = {row.rstrip("=").replace("\\ ", " ") for row in file.read().split("\n") if row}
    os.unlink(f"{scratch}/hits")
    return found

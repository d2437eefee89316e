# SPDX-License-Identifier: MIT
"""shells.py - the commands of rung lab as completion for bash, zsh and fish, and as a manual page.

base/option_*.c does the same for the programs in C, and decides what the functions are called and how the page looks.
"""
import textwrap

import experiment

HELP = "show help and exit"
BASH = """# SPDX-License-Identifier: MIT
_rung_lab() {
    local word=${COMP_WORDS[COMP_CWORD]} each words='%s'
    for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $each in
%s        esac
    done
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _rung_lab rung-lab"""
ZSH = """#compdef rung-lab
# SPDX-License-Identifier: MIT
_rung_lab() {
    local line state
    _arguments -C : %s '1:COMMAND:((%s))' '*::argument:->rest'
    [[ $state == rest ]] || return
    case $line[1] in
%s    esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _rung_lab "$@"
else
    compdef _rung_lab rung-lab
fi"""
PAGE = r""".\" SPDX-License-Identifier: MIT
.\" Generated from the commands of rung lab; do not edit.
.Dd $Mdocdate$
.Dt RUNG-LAB 1
.Os
.Sh NAME
.Nm rung-lab
.Nd run experiments: what each way of waiting costs
.Sh SYNOPSIS
.Nm rung-lab
.Op Ar OPTION ...
.Op Ar COMMAND ...
.Sh DESCRIPTION
%s
.Sh OPTIONS
%s
.Sh COMMANDS
%s
.Sh EXIT STATUS
0: all was measured.
1: something could not be measured.
2: a mistake in the command line or in a plan.
.Sh EXAMPLES
.Bl -tag -width Ds
.It Li "rung lab"
list the experiments, each with its question
.It Li "rung lab run engines"
measure one of them, in two minutes
.It Li "rung lab show engines"
show what the last run found
.El"""


def options(parser):
    return [action for action in parser._actions if action.option_strings]  # pylint: disable=protected-access


def words(parser):
    return sorted(word for action in options(parser) for word in action.option_strings)


def takes_names(parser):
    return any(action.dest == "names" for action in parser._actions)  # pylint: disable=protected-access


def names(parser):
    return experiment.names() if takes_names(parser) else []


def purposes(known):
    """{command: its line of help}"""
    return {action.dest: action.help for action in known._choices_actions}  # pylint: disable=protected-access


def bash(parser, known):
    cases = "".join(f"        {name}) words='{' '.join(words(one) + names(one))}' ;;\n" for name, one in known.choices.items())
    return BASH % (" ".join(words(parser) + list(known.choices)), cases)


def help_of(action):
    return HELP if action.dest == "help" else action.help


def zsh_options(parser):
    rows = []
    for action in options(parser):
        what = help_of(action).replace("'", "'\\''").replace("]", "\\]")
        value = "" if action.nargs == 0 else f":{action.metavar or action.dest.upper()}: "
        rows += [f"'{word}{'=' * bool(value) if word.startswith('--') else ''}[{what}]{value}'" for word in action.option_strings]
    return " ".join(rows)


def zsh(parser, known):
    cases = "".join(f"    {name}) _arguments : {zsh_options(one)}" + (f" '*:NAME:({' '.join(names(one))})'" if takes_names(one) else "") + " ;;\n"
                    for name, one in known.choices.items())
    commands = " ".join(f'{name}\\:"{what}"' for name, what in purposes(known).items())
    return ZSH % (zsh_options(parser), commands, cases)


def fish_options(parser, condition):
    for action in options(parser):
        given = "".join(f" -l {word[2:]}" if word.startswith("--") else f" -s {word[1:]}" for word in action.option_strings)
        what = help_of(action).replace("\\", "\\\\").replace("'", "\\'")
        yield f"complete -c rung-lab{condition}{given}{'' if action.nargs == 0 else ' -x'} -d '{what}'"


def fish(parser, known):
    every = " ".join(known.choices)
    rows = ["# SPDX-License-Identifier: MIT", "complete -c rung-lab -f"]
    rows += fish_options(parser, f" -n 'not __fish_seen_subcommand_from {every}'")
    for name, one in known.choices.items():
        rows.append(f"complete -c rung-lab -n 'not __fish_seen_subcommand_from {every}' -a {name} -d '{purposes(known)[name]}'")
        here = f" -n '__fish_seen_subcommand_from {name}'"
        rows += fish_options(one, here)
        if takes_names(one):
            rows.append(f"complete -c rung-lab{here} -a '{' '.join(names(one))}'")
    return "\n".join(rows)


def roff(text):
    """A sentence in lines that mandoc does not find too long."""
    text = text[0].upper() + text[1:] + "." * (not text.endswith("."))
    return "\n".join(textwrap.wrap(text.replace("\\", "\\e").replace("-", "\\-"), 70, break_on_hyphens=False))


def rows_of(parser):
    rows = [".Bl -tag -width Ds"]
    for action in options(parser):
        value = "" if action.nargs == 0 else f" Ar {action.metavar or action.dest.upper()}"
        rows += [".It " + " , ".join("Fl " + word[1:].replace("-", "\\-") for word in action.option_strings) + value, roff(help_of(action))]
    return "\n".join([*rows, ".El"])


def manual(parser, known):
    commands = "\n".join(f".Ss rung lab {name}{' NAMES' * takes_names(one)}\n{roff(purposes(known)[name])}\n{rows_of(one)}"
                         for name, one in known.choices.items())
    return PAGE % (roff(parser.description), rows_of(parser), commands)


ASKED = {"--completion": bash, "--completion=bash": bash, "--completion=zsh": zsh, "--completion=fish": fish, "--man": manual}


def generate(parser, known, what):
    """What the build asks for by this word, as option_generate() prints it for other programs; True if it is such a word."""
    if what in ASKED:
        print(ASKED[what](parser, known))
    return what in ASKED

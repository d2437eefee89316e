/* SPDX-License-Identifier: MIT */
/* option_main.c - the main function of a program that has one table of options. */
#include <errno.h>
#include "option.h"
#include "say.h"

int option_main(const struct option_table *t, void *options, char **argv,
                int (*run)(const void *options, const struct option_found *found))
{
    struct option_found found;
    int code = EXIT_DONE, parsed;

    if (!argv[0])
        return EXIT_USAGE;
    if (argv[1] && !argv[2] && option_generate(t, argv[1], stdout))
        return fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
    parsed = option_parse(t, options, argv, &found);
    if (parsed < 0) {
        say_error("%s", found.error);
        return EXIT_USAGE;
    }
    if (parsed == OPTION_OK)
        code = run(options, &found);
    else
        option_help(t, parsed == OPTION_HELP_ALL, stdout);
    if (fflush(stdout) != 0 && code == EXIT_DONE) {
        say_error("cannot write to standard output: %s", say_why(errno));
        code = EXIT_FAILED;
    }
    return code;
}

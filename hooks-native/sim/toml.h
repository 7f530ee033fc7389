/* toml.h: the part of TOML that profiles use: tables of one level, bare and quoted keys, strings, numbers, comments. */
#ifndef GPUD_SIM_TOML_H
#define GPUD_SIM_TOML_H

#include <stdbool.h>
#include <stddef.h>

#define TOML_TEXT 256

struct toml_item {
    int line;
    char table[TOML_TEXT];              /* "" before the first [table] */
    char key[TOML_TEXT];
    bool is_text;
    char text[TOML_TEXT];               /* the string, or the number as written */
    double number;
};

/* Calls `take` for each key in the order of the file, until it returns false. Returns 0; 1 when `take` said false (it has
 * filled in the error); −1 with `error` = "FILE:LINE: …". */
int toml_read(const char *path, bool (*take)(void *arg, const struct toml_item *item), void *arg, char *error, size_t error_size);

#endif

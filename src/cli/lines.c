/*
 * lines.c - files of which each line is a prompt, a text or a record.
 */
#include "cli.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MOST = 1000000 };

char **lines_read(const char *path, int *count) {
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        cli_say("cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    char **list = NULL, *line = NULL;
    size_t room = 0;
    *count = 0;
    for (ssize_t size; (size = getline(&line, &room, file)) >= 0 && *count < LINES_MOST;) {
        while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r')) line[--size] = '\0';
        if (size == 0) continue;
        list = text_grow(list, ((size_t)*count + 1) * sizeof *list);
        list[(*count)++] = text_copy_part(line, (size_t)size);
    }
    free(line);
    fclose(file);
    if (*count == 0) cli_say("%s is empty; it needs one a line", path);
    return list;
}

void lines_free(char **list, int count) {
    for (int i = 0; i < count; i++) free(list[i]);
    free(list);
}

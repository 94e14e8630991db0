/*
 * replay.c - runs a fuzz target over the files of corpus folders, for builds without a fuzzing engine.
 *
 *     target FOLDER…
 *
 * A folder that is missing or empty is no failure: it says how many inputs were run.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Run one file; false when it is not one that can be read. */
static int run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return 0;
    uint8_t *data = NULL;
    size_t size = 0, room = 0;
    for (;;) {
        if (size == room) {
            room = room ? 2 * room : 4096;
            uint8_t *more = realloc(data, room);
            if (more == NULL) abort();
            data = more;
        }
        size_t got = fread(data + size, 1, room - size, file);
        if (got == 0) break;
        size += got;
    }
    int fine = !ferror(file);
    fclose(file);
    if (fine) {
        /* Exactly as large as the input, so that a sanitizer sees a read past its end. */
        uint8_t *exact = malloc(size ? size : 1);
        if (exact == NULL) abort();
        memcpy(exact, data, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    free(data);
    return fine;
}

static int run_folder(const char *folder) {
    DIR *dir = opendir(folder);
    int count = 0;
    if (dir == NULL) return 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[4096];
        if (entry->d_name[0] == '.') continue;
        int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (length > 0 && (size_t)length < sizeof path) count += run_file(path);
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv) {
    int count = 0;
    for (int i = 1; i < argc; i++) count += run_folder(argv[i]);
    printf("%d inputs run\n", count);
    return 0;
}

/*
 * fuzz_audit.c - any bytes as an audit log: refused in words, or read within bounds, with a verdict that names a fault or none.
 *
 *     byte 0: bit 0: the bytes stand in the place of a good log's, from an offset on; else they are the whole file
 *     bytes 1, 2: that offset; the rest is the file, or what is put into it
 */
#include "ops/audit.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/wane-fuzz-audit-XXXXXX", path[64], good[64];

static void clean(void) {
    static const char *const ends[] = {"", "-wal", "-shm", "-journal", "-count"};
    char name[80];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
        snprintf(name, sizeof name, "%s%s", good, ends[i]);
        unlink(name);
    }
    rmdir(folder);
}

/* A log of a few records, and a folder for it, once a run. */
static void prepare(void) {
    struct wane__audit *a;
    wane_error error = {0};
    if (path[0] != '\0') return;
    if (mkdtemp(folder) == NULL) abort();
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(good, sizeof good, "%s/good", folder);
    atexit(clean);
    struct wane__audit_write_options o = {.path = good, .gather_ms = 1};
    if (wane__audit_open(&o, &a, &error) != WANE_OK) abort();
    for (int i = 0; i < 20; i++) {
        struct wane__audit_note *note = wane__audit_note_new("request");
        wane__audit_note_format(note, WANE_AUDIT_REQUEST, "req_%d", i);
        wane__audit_tell(a, note);
    }
    wane__audit_close(a);
}

static void write_file(const uint8_t *data, size_t size) {
    static char bytes[1 << 16];
    size_t length = 0, offset = (size_t)data[1] | (size_t)data[2] << 8;
    if ((data[0] & 1) != 0) {
        FILE *file = fopen(good, "rb");
        if (file == NULL) abort();
        length = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
    } else {
        offset = 0;
    }
    size_t room = sizeof bytes - offset, take = size - 3 < room ? size - 3 : room;
    if (offset > length) memset(bytes + length, 0, offset - length);
    memcpy(bytes + offset, data + 3, take);
    if (offset + take > length) length = offset + take;
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, length, file) != length) abort();
    fclose(file);
}

static bool see(void *user, const wane_audit_record *r) {
    int *count = user;
    for (int i = 0; i < WANE_AUDIT_FIELDS; i++) {
        const wane_audit_value *v = &r->field[i];
        if (v->type == WANE_AUDIT_STRING && v->text[v->size] != '\0') abort();
        if (v->type != WANE_AUDIT_STRING && v->text != NULL) abort();
    }
    if (strlen(r->hash) != 64 || strlen(r->before) != 64) abort();
    return ++*count < 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) return 0;
    const char *paths[] = {path};
    wane_audit_check check;
    wane_audit_verdict v;
    wane_audit_filter filter;
    wane_error error = {0};
    int count = 0;
    prepare();
    write_file(data, size);
    wane_audit_check_init(&check);
    check.paths = paths;
    check.path_count = 1;
    int status = wane_audit_verify(&check, &v, &error);
    if (status != WANE_OK && (error.code != status || error.text[0] == '\0')) abort();
    if (status == WANE_OK && (v.fault == WANE_AUDIT_WHOLE) != (v.what[0] == '\0')) abort();
    if (status == WANE_OK && (v.head[0] != '\0') != (v.records > 0)) abort();
    wane_audit_filter_init(&filter);
    filter.last = 500;
    status = wane_audit_read(path, &filter, see, &count, &error);
    if (status != WANE_OK && (error.code != status || error.text[0] == '\0')) abort();
    return 0;
}

/*
 * build_partial.c - the file of a partial build: the samples of some traces, sorted, with what they are of.
 *
 *     0    "WANEPART" │ version 4 │ names of contexts 4 │ model 32 │ tokenizer 32 │ vocab_size 4 │ trace version 4
 *     88   window 4 │ 0 4 │ samples 8 │ records 8 │ fates 4 × 8 │ kinds 4 × 8 │ kept 8 │ bytes 8 │ check 8
 *     200  check of the bytes before it 8 │ zeros up to 256
 *     256  the samples: 2 bytes of size each, then the bytes of build_sample.h
 *
 * Little-endian. Checks are XXH3-64; that of the head covers that of the samples. When it is read, every sample is decoded
 * once before any of them counts.
 */
#include "table/build_internal.h"

#include "core/bytes.h"
#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static const char magic[8] = {'W', 'A', 'N', 'E', 'P', 'A', 'R', 'T'};
enum { VERSION = 1, NAMES = 1, HEAD = 256, CHECKED = 200, READ_BUFFER = 1 << 20 };

static void head_encode(const struct wane__partial_head *head, uint8_t bytes[HEAD]) {
    memset(bytes, 0, HEAD);
    memcpy(bytes, magic, sizeof magic);
    wane__put(bytes + 8, VERSION, 4);
    wane__put(bytes + 12, NAMES, 4);
    memcpy(bytes + 16, head->origin.model, 32);
    memcpy(bytes + 48, head->origin.tokenizer, 32);
    wane__put(bytes + 80, (uint32_t)head->origin.vocab_size, 4);
    wane__put(bytes + 84, (uint32_t)head->origin.version, 4);
    wane__put(bytes + 88, (uint32_t)head->window, 4);
    wane__put(bytes + 96, head->samples, 8);
    wane__put(bytes + 104, head->records, 8);
    for (int i = 0; i < 4; i++) {
        wane__put(bytes + 112 + 8 * i, head->fates[i], 8);
        wane__put(bytes + 144 + 8 * i, head->kinds[i], 8);
    }
    wane__put(bytes + 176, head->kept, 8);
    wane__put(bytes + 184, head->bytes, 8);
    wane__put(bytes + 192, head->check, 8);
    wane__put(bytes + CHECKED, XXH3_64bits(bytes, CHECKED), 8);
}

/* NULL, or what is wrong. */
static const char *head_decode(const uint8_t bytes[HEAD], uint64_t file_size,
                               struct wane__partial_head *head) {
    if (memcmp(bytes, magic, sizeof magic) != 0) return "it is no partial build";
    if (wane__get(bytes + 8, 4) != VERSION || wane__get(bytes + 12, 4) != NAMES)
        return "it is of another version of wane";
    if (wane__get(bytes + CHECKED, 8) != XXH3_64bits(bytes, CHECKED)) return "its head is damaged";
    for (int i = CHECKED + 8; i < HEAD; i++)
        if (bytes[i] != 0) return "its head is damaged";
    *head = (struct wane__partial_head){0};
    memcpy(head->origin.model, bytes + 16, 32);
    memcpy(head->origin.tokenizer, bytes + 48, 32);
    head->origin.vocab_size = (int)(int32_t)(uint32_t)wane__get(bytes + 80, 4);
    head->origin.version = (int)(int32_t)(uint32_t)wane__get(bytes + 84, 4);
    head->window = (int)(int32_t)(uint32_t)wane__get(bytes + 88, 4);
    head->samples = wane__get(bytes + 96, 8);
    head->records = wane__get(bytes + 104, 8);
    for (int i = 0; i < 4; i++) {
        head->fates[i] = wane__get(bytes + 112 + 8 * i, 8);
        head->kinds[i] = wane__get(bytes + 144 + 8 * i, 8);
    }
    head->kept = wane__get(bytes + 176, 8);
    head->bytes = wane__get(bytes + 184, 8);
    head->check = wane__get(bytes + 192, 8);
    if (!wane__is_digest(bytes + 16) || !wane__is_digest(bytes + 48)) return "its digests are none";
    if (head->origin.vocab_size < 1 || head->origin.vocab_size > 1 << 24 || head->window < 1 ||
        head->window > WANE__WINDOW_MOST || head->kept > head->records)
        return "its numbers make no sense";
    if (head->bytes > file_size || head->bytes != file_size - HEAD) return "it is cut short or too long";
    return NULL;
}

/* -------------------------------------------------------------------- writing */

static int write_samples(struct wane__build *build, struct wane__run_writer *writer,
                         struct wane__partial_head *head, wane_error *error) {
    uint64_t done = 0;
    XXH3_state_t *check = XXH3_createState();
    if (check == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to write a partial build.");
    XXH3_64bits_reset(check);
    int status;
    for (;;) {
        const uint8_t *bytes;
        size_t size;
        status = wane__sorter_next(build->samples, &bytes, &size, error);
        if (status != 1) break;
        status = WANE_OK;
        if (done++ % 4096 == 0)
            status =
                wane__build_progress(build, "writing samples", (double)done / (double)build->kept, error);
        if (status != WANE_OK) break;
        /* What another shard could not push out: the first that is too many shows where to stop. */
        int kind = (int)wane__sample_kind(bytes);
        const struct wane__strata *strata = &build->strata;
        if (strata->limit > 0 && strata->count[kind] > strata->limit &&
            wane__sample_hash(bytes) > strata->least[kind][0])
            continue;
        uint8_t length[2] = {(uint8_t)(size & 255), (uint8_t)(size >> 8)};
        XXH3_64bits_update(check, length, 2);
        XXH3_64bits_update(check, bytes, size);
        status = wane__run_writer_add(writer, bytes, size, error);
        if (status != WANE_OK) break;
        head->kept++;
    }
    head->check = XXH3_64bits_digest(check);
    XXH3_freeState(check);
    return status == WANE_OK ? wane__run_writer_flush(writer, error) : status;
}

static int write_file(struct wane__build *build, int fd, const char *path, wane_error *error) {
    struct wane__partial_head head = {.origin = build->options.origin,
                                      .window = build->options.set.window,
                                      .samples = build->options.set.samples,
                                      .records = build->records};
    memcpy(head.fates, build->fates, sizeof head.fates);
    memcpy(head.kinds, build->kinds, sizeof head.kinds);
    uint8_t bytes[HEAD] = {0};
    if (write(fd, bytes, HEAD) != HEAD)
        return wane__fail(error, WANE_EIO, "Cannot write the partial build %s: %s.", path, strerror(errno));
    struct wane__run_writer writer;
    int status = wane__run_writer_open(&writer, fd, error);
    if (status == WANE_OK) status = write_samples(build, &writer, &head, error);
    head.bytes = writer.written;
    wane__run_writer_close(&writer);
    if (status != WANE_OK) return status;
    head_encode(&head, bytes);
    if (pwrite(fd, bytes, HEAD, 0) != HEAD)
        return wane__fail(error, WANE_EIO, "Cannot write the partial build %s: %s.", path, strerror(errno));
    return WANE_OK;
}

int wane__build_partial(struct wane__build *build, const char *path, wane_error *error) {
    int status = wane__sorter_finish(build->samples, error);
    if (status != WANE_OK) return status;
    wane__build_count(build);
    struct wane__file_fresh fresh;
    status = wane__file_begin(path, "the partial build", &fresh, error);
    if (status != WANE_OK) return status;
    status = write_file(build, fresh.fd, path, error);
    if (status == WANE_OK) return wane__file_commit(&fresh, 0644, error);
    wane__file_abandon(&fresh);
    return status;
}

/* -------------------------------------------------------------------- reading */

static int open_partial(const char *path, struct wane__partial_head *head, wane_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO,
                          "Cannot open the partial build %s: %s.", path, strerror(errno));
    struct stat facts;
    uint8_t bytes[HEAD];
    const char *wrong = NULL;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < HEAD ||
        pread(fd, bytes, HEAD, 0) != HEAD)
        wrong = "it is too short, or no plain file";
    else
        wrong = head_decode(bytes, (uint64_t)facts.st_size, head);
    if (wrong == NULL) return fd;
    close(fd);
    return wane__fail(error, WANE_EFORMAT, "%s cannot be used as a partial build: %s.", path, wrong);
}

int wane__partial_head(const char *path, struct wane__partial_head *head, wane_error *error) {
    int fd = open_partial(path, head, error);
    if (fd < 0) return fd;
    close(fd);
    return WANE_OK;
}

static int check_same(const struct wane__build *build, const char *path,
                      const struct wane__partial_head *head, wane_error *error) {
    const struct wane__trace_origin *origin = &build->options.origin;
    const wane_table_build_options *set = &build->options.set;
    if (strcmp(head->origin.model, origin->model) != 0 ||
        strcmp(head->origin.tokenizer, origin->tokenizer) != 0 ||
        head->origin.vocab_size != origin->vocab_size || head->origin.version != origin->version)
        return wane__fail(
            error, WANE_EINVAL,
            "The partial build %s is of model %s, tokenizer %s with %d tokens; the first is of model %s, "
            "tokenizer %s with %d. Merge what belongs together.",
            path, head->origin.model, head->origin.tokenizer, head->origin.vocab_size, origin->model,
            origin->tokenizer, origin->vocab_size);
    if (head->window != set->window || head->samples != set->samples)
        return wane__fail(
            error, WANE_EINVAL,
            "The partial build %s has a window of %d and %llu samples of a kind at most; the first has "
            "%d and %llu. Build them with the same settings.",
            path, head->window, (unsigned long long)head->samples, set->window,
            (unsigned long long)set->samples);
    return WANE_OK;
}

/* Look at each sample: none is damaged, and which of their kind are the least. */
static int check_samples(struct wane__build *build, struct wane__run_reader *reader,
                         const struct wane__partial_head *head, XXH3_state_t *check, wane_error *error) {
    struct wane__sample sample;
    uint64_t count = 0;
    for (;; count++) {
        const uint8_t *bytes;
        size_t size;
        int status = wane__run_reader_next(reader, &bytes, &size, error);
        if (status == 0) break;
        if (status == 1)
            status = wane__sample_decode(bytes, size, head->origin.vocab_size, reader->name, &sample, error);
        if (status == WANE_OK && sample.last_count < head->window)
            status = wane__fail(error, WANE_EFORMAT,
                                "%s is damaged: a sample has fewer tokens than its window.", reader->name);
        if (status == WANE_OK && count % 4096 == 0)
            status = wane__build_progress(build, "checking partial builds",
                                          (double)count / (double)(head->kept + 1), error);
        if (status != WANE_OK) return status;
        uint8_t length[2] = {(uint8_t)(size & 255), (uint8_t)(size >> 8)};
        XXH3_64bits_update(check, length, 2);
        XXH3_64bits_update(check, bytes, size);
        wane__strata_add(&build->strata, sample.kind, sample.hash, &status);
        if (status != WANE_OK)
            return wane__fail(error, status, "No memory to choose samples by their kinds.");
    }
    if (count != head->kept || XXH3_64bits_digest(check) != head->check)
        return wane__fail(error, WANE_EFORMAT, "The partial build %s is damaged. Build it again.",
                          reader->name);
    return WANE_OK;
}

static int keep_name(struct wane__build *build, const char *path, wane_error *error) {
    char **names = wane__resize(build->names, (size_t)build->name_count + 1, sizeof *names);
    if (names != NULL) {
        build->names = names;
        names[build->name_count] = wane__copy_string(path);
        if (names[build->name_count] != NULL) {
            build->name_count++;
            return WANE_OK;
        }
    }
    return wane__fail(error, WANE_ENOMEM, "No memory for a file name.");
}

int wane__build_read_partial(struct wane__build *build, const char *path, wane_error *error) {
    struct wane__partial_head head = {0};
    struct wane__run_reader reader = {0};
    XXH3_state_t *check = NULL;
    int fd = open_partial(path, &head, error);
    if (fd < 0) return fd;
    int status = check_same(build, path, &head, error);
    if (status == WANE_OK) status = keep_name(build, path, error);
    if (status != WANE_OK) goto end;
    const char *name = build->names[build->name_count - 1];
    check = XXH3_createState();
    if (check == NULL) {
        status = wane__fail(error, WANE_ENOMEM, "No memory to read a partial build.");
        goto end;
    }
    XXH3_64bits_reset(check);
    status = wane__run_reader_open(&reader, fd, name, HEAD, HEAD + head.bytes, READ_BUFFER, error);
    if (status == WANE_OK) status = check_samples(build, &reader, &head, check, error);
    if (status != WANE_OK) goto end;
    build->records += head.records;
    build->kept += head.kept;
    for (int i = 0; i < 4; i++) {
        build->fates[i] += head.fates[i];
        build->kinds[i] += head.kinds[i];
    }
    status = wane__sorter_add_run(build->samples, fd, name, HEAD, HEAD + head.bytes, error);
    fd = -1; /* the sorter's now */
end:
    if (fd >= 0) close(fd);
    if (check != NULL) XXH3_freeState(check);
    wane__run_reader_close(&reader);
    return status;
}

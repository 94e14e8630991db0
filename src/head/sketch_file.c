/*
 * sketch_file.c - the sketch's file: written under a temporary name, synced, renamed; opened mapped and read-only.
 *
 *     0        header, one page
 *     4096     map: mean, mean row, T in panels of 16 rows (the last only with statistics)
 *     …        level 1, level 2; each section begins on a page
 *
 * Nothing in a file is believed: the header has a check of its own, every size in it must be the one that its
 * other numbers give, and every section is checked before use.
 */
#include "head/sketch.h"

#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "The sketch's file is little-endian, and so is every machine that this was written for."
#endif

#define MAGIC "WANEHEAD"
enum { VERSION = 2, PAGE = 4096 };

static const char *const section_names[3] = {"the map", "level 1", "level 2"};

static size_t round_up(size_t size, size_t to) {
    return (size + to - 1) / to * to;
}

void wane__sketch_shape_of(const struct wane__sketch_header *header, struct wane__sketch_shape *shape) {
    size_t groups = (size_t)header->groups, d = (size_t)header->d;
    *shape = (struct wane__sketch_shape){0};
    for (int g = 0; g < header->groups; g++) {
        shape->padded += header->group[g].dims;
        shape->columns += header->group[g].kept / 8 * header->group[g].bits;
    }
    shape->meta_bytes = round_up(WANE__SKETCH_ROWS * (4 + 3 * groups), 64);
    shape->block_bytes = shape->meta_bytes + (size_t)shape->columns * WANE__SKETCH_ROWS;
    shape->blocks = ((size_t)header->vocab_size + WANE__SKETCH_ROWS - 1) / WANE__SKETCH_ROWS;
    shape->record_head = round_up(4 + 8 * groups, 16);
    shape->record_bytes = shape->record_head + (size_t)shape->padded / 2;
    shape->map_bytes = sizeof(float) * (2 * d + (header->has_map ? d * (size_t)shape->padded : 0));
}

bool wane__sketch_rotations(const struct wane__sketch_header *header,
                            struct wane__rotation rotation[WANE__SKETCH_GROUPS]) {
    for (int g = 0; g < header->groups; g++)
        if (!wane__rotation_init(&rotation[g], header->group[g].dims, UINT64_C(0x77616e65) + (uint64_t)g))
            return false;
    return true;
}

static void section_sizes(const struct wane__sketch_header *header, uint64_t sizes[3]) {
    struct wane__sketch_shape shape;
    wane__sketch_shape_of(header, &shape);
    sizes[WANE__SECTION_MAP] = shape.map_bytes;
    sizes[WANE__SECTION_LEVEL1] = shape.blocks * shape.block_bytes;
    sizes[WANE__SECTION_LEVEL2] = (uint64_t)header->vocab_size * shape.record_bytes;
}

/* -------------------------------------------------------------------- writing */

static uint64_t header_check(struct wane__sketch_header header) {
    header.check = 0;
    return XXH3_64bits(&header, sizeof header);
}

int wane__sketch_write(const char *path, struct wane__sketch_header *header, const void *const section[3],
                       wane_error *error) {
    _Static_assert(sizeof *header <= PAGE, "the header fits its page");
    uint64_t sizes[3], offset = PAGE;
    memcpy(header->magic, MAGIC, sizeof header->magic);
    header->version = VERSION;
    header->header_size = sizeof *header;
    section_sizes(header, sizes);
    for (int i = 0; i < 3; i++) {
        header->section[i].offset = offset;
        header->section[i].size = sizes[i];
        header->section[i].check = XXH3_64bits(section[i], sizes[i]);
        offset += round_up(sizes[i], PAGE);
    }
    header->check = header_check(*header);
    static const char zeros[PAGE];
    struct wane__file_part part[8] = {{header, sizeof *header}, {zeros, PAGE - sizeof *header}};
    for (int i = 0; i < 3; i++) {
        part[2 + 2 * i] = (struct wane__file_part){section[i], sizes[i]};
        part[3 + 2 * i] = (struct wane__file_part){zeros, round_up(sizes[i], PAGE) - sizes[i]};
    }
    return wane__file_replace(path, "the head's sketch to", part, 8, 0644, error);
}

/* -------------------------------------------------------------------- opening */

static bool group_is_sound(const struct wane__sketch_group *group) {
    return group->real >= 1 && group->real <= group->dims && group->dims % 64 == 0 &&
           group->dims <= WANE__SKETCH_MOST_D && group->dims - group->real < 64 && group->kept >= 64 &&
           group->kept % 64 == 0 && group->kept <= group->dims && group->bits >= 1 && group->bits <= 4 &&
           group->exponent >= -126 && group->exponent <= 95 && isfinite(group->ratio_low) &&
           isfinite(group->ratio_step) && isfinite(group->longest_code) && group->ratio_low >= 0 &&
           group->ratio_step >= 0 && group->longest_code >= 0;
}

/* NULL, or what is wrong. */
static const char *check_header(const struct wane__sketch_header *header, uint64_t file_size) {
    if (memcmp(header->magic, MAGIC, sizeof header->magic) != 0) return "it is not a sketch";
    if (header->version != VERSION) return "it is of another version";
    if (header->header_size != sizeof *header || header->check != header_check(*header))
        return "its header is damaged";
    if (header->vocab_size < 1 || header->vocab_size > 1 << 28 || header->d < 1 ||
        header->d > WANE__SKETCH_MOST_D || header->groups < 1 || header->groups > WANE__SKETCH_GROUPS ||
        header->has_map < 0 || header->has_map > 1 || !isfinite(header->longest_row))
        return "its sizes make no sense";
    int real = 0;
    for (int g = 0; g < header->groups; g++) {
        if (!group_is_sound(&header->group[g])) return "its groups make no sense";
        real += header->group[g].real;
    }
    if (real != header->d) return "its groups do not make up a row";
    uint64_t sizes[3], offset = PAGE;
    section_sizes(header, sizes);
    for (int i = 0; i < 3; i++) {
        if (header->section[i].offset != offset || header->section[i].size != sizes[i])
            return "its sections are not where they should be";
        offset += round_up(sizes[i], PAGE);
    }
    return offset == file_size ? NULL : "it is cut short or too long";
}

static int map_file(const char *path, struct wane__sketch *sketch, wane_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int code = errno == ENOENT ? WANE_ENOENT : WANE_EIO;
        return wane__fail(error, code, "Cannot open the head's sketch %s: %s.", path, strerror(errno));
    }
    struct stat facts;
    int status = WANE_OK;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < PAGE) {
        status = wane__fail(error, WANE_EFORMAT, "%s is not a sketch of a head: too short, or no plain file.",
                            path);
    } else {
        sketch->mapped_size = (size_t)facts.st_size;
        sketch->mapped = mmap(NULL, sketch->mapped_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (sketch->mapped == MAP_FAILED) {
            sketch->mapped = NULL;
            status = wane__fail(error, WANE_EIO, "Cannot map %s: %s.", path, strerror(errno));
        }
    }
    close(fd);
    return status;
}

static int check_sections(const char *path, const struct wane__sketch *sketch, wane_error *error) {
    for (int i = 0; i < 3; i++) {
        const struct wane__sketch_section *section = &sketch->header.section[i];
        const char *from = (const char *)sketch->mapped + section->offset;
        if (XXH3_64bits(from, section->size) != section->check)
            return wane__fail(error, WANE_EFORMAT, "The head's sketch %s is damaged in %s. Build it again.",
                              path, section_names[i]);
    }
    return WANE_OK;
}

static int open_mapped(const char *path, const char *digest, struct wane__sketch *sketch, wane_error *error) {
    struct wane__sketch_header *header = &sketch->header;
    if (sketch->mapped == NULL)
        return wane__fail(error, WANE_EINTERNAL, "The head's sketch %s is not mapped.", path);
    memcpy(header, sketch->mapped, sizeof *header);
    const char *wrong = check_header(header, sketch->mapped_size);
    if (wrong != NULL)
        return wane__fail(error, WANE_EFORMAT, "%s cannot be used as a head's sketch: %s. Build it again.",
                          path, wrong);
    if (strncmp(header->digest, digest, sizeof header->digest) != 0)
        return wane__fail(error, WANE_EFORMAT, "The head's sketch %s is of another model. Build it again.",
                          path);
    int status = check_sections(path, sketch, error);
    if (status != WANE_OK) return status;
    const char *base = sketch->mapped;
    wane__sketch_shape_of(header, &sketch->shape);
    sketch->mean = (const float *)(const void *)(base + header->section[WANE__SECTION_MAP].offset);
    sketch->mean_row = sketch->mean + header->d;
    sketch->map = header->has_map ? sketch->mean_row + header->d : NULL;
    sketch->level1 = (const uint8_t *)base + header->section[WANE__SECTION_LEVEL1].offset;
    sketch->level2 = (const uint8_t *)base + header->section[WANE__SECTION_LEVEL2].offset;
    if (!wane__sketch_rotations(header, sketch->rotation))
        return wane__fail(error, WANE_ENOMEM, "No memory for the head's sketch.");
    return WANE_OK;
}

int wane__sketch_open(const char *path, const char *digest, struct wane__sketch *sketch, wane_error *error) {
    *sketch = (struct wane__sketch){0};
    int status = map_file(path, sketch, error);
    if (status == WANE_OK) status = open_mapped(path, digest, sketch, error);
    if (status != WANE_OK) wane__sketch_close(sketch);
    return status;
}

void wane__sketch_close(struct wane__sketch *sketch) {
    for (int g = 0; g < WANE__SKETCH_GROUPS; g++) wane__rotation_free(&sketch->rotation[g]);
    if (sketch->mapped != NULL) munmap(sketch->mapped, sketch->mapped_size);
    *sketch = (struct wane__sketch){0};
}

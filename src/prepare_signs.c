/*
 * prepare_signs.c - the steps that look at single characters: invisible ones, and composed ones (NFC).
 *
 * What an invisible character does decides whether it stays: a joiner between the parts of an emoji or in a script whose letters
 * join, a mark of direction in a line that has right-to-left letters, a selector behind what it selects for, a zero-width space
 * in a script without spaces. Everywhere else it is a trap for whoever compares texts, or a way to smuggle words past a reader.
 */
#include "prepare.h"

#include "core/error.h"
#include "core/memory.h"

#include <string.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/uscript.h>
#include <unicode/ustring.h>

enum {
    SOFT_HYPHEN = 0xad,
    ARABIC_MARK = 0x61c,
    ZERO_SPACE = 0x200b,
    NON_JOINER = 0x200c,
    JOINER = 0x200d,
    TEXT_STYLE = 0xfe0e,
    EMOJI_STYLE = 0xfe0f,
    BLACK_FLAG = 0x1f3f4,
    TAG_END = 0xe007f
};

static bool between(UChar32 c, UChar32 first, UChar32 last) {
    return c >= first && c <= last;
}

/* ------------------------------------------------------------------ invisible characters */

/* Those that never stay: controls but for white space, soft hyphen, word joiner, invisible operators, byte order mark, fillers. */
static bool is_idle(UChar32 c) {
    if (c < 0x20) return !between(c, '\t', '\r');
    return between(c, 0x7f, 0x84) || between(c, 0x86, 0x9f) || c == SOFT_HYPHEN ||
           between(c, 0x2060, 0x2064) || between(c, 0x206a, 0x206f) || c == 0xfeff ||
           between(c, 0xfff9, 0xfffb) || c == 0x3164 || c == 0xffa0;
}

static bool is_direction(UChar32 c) {
    return c == ARABIC_MARK || between(c, 0x200e, 0x200f) || between(c, 0x202a, 0x202e) ||
           between(c, 0x2066, 0x2069);
}

static bool is_ideograph_selector(UChar32 c) {
    return between(c, 0xe0100, 0xe01ef);
}

static bool is_selector(UChar32 c) {
    return between(c, 0xfe00, EMOJI_STYLE) || is_ideograph_selector(c);
}

static bool is_tag(UChar32 c) {
    return between(c, 0xe0000, 0xe0fff) && !is_ideograph_selector(c);
}

static bool is_invisible(UChar32 c) {
    return is_idle(c) || is_direction(c) || is_selector(c) || is_tag(c) || between(c, ZERO_SPACE, JOINER);
}

static UScriptCode script_of(UChar32 c) {
    UErrorCode status = U_ZERO_ERROR;
    UScriptCode script = c >= 0 ? uscript_getScript(c, &status) : USCRIPT_COMMON;
    return U_SUCCESS(status) ? script : USCRIPT_COMMON;
}

/* Scripts whose letters take another form beside each other, so that joiners are part of the spelling. */
static bool joins(UChar32 c) {
    switch (script_of(c)) {
    case USCRIPT_ARABIC:
    case USCRIPT_SYRIAC:
    case USCRIPT_MANDAIC:
    case USCRIPT_NKO:
    case USCRIPT_ADLAM:
    case USCRIPT_MONGOLIAN:
    case USCRIPT_DEVANAGARI:
    case USCRIPT_BENGALI:
    case USCRIPT_GURMUKHI:
    case USCRIPT_GUJARATI:
    case USCRIPT_ORIYA:
    case USCRIPT_TAMIL:
    case USCRIPT_TELUGU:
    case USCRIPT_KANNADA:
    case USCRIPT_MALAYALAM:
    case USCRIPT_SINHALA:
    case USCRIPT_TIBETAN:
    case USCRIPT_MYANMAR:
    case USCRIPT_KHMER:
    case USCRIPT_BALINESE:
    case USCRIPT_JAVANESE: return true;
    default: return false;
    }
}

/* Scripts that write no spaces between words, so that a zero-width one says where a word ends. */
static bool is_spaceless(UChar32 c) {
    UScriptCode script = script_of(c);
    return script == USCRIPT_THAI || script == USCRIPT_LAO || script == USCRIPT_KHMER ||
           script == USCRIPT_MYANMAR;
}

static bool is_picture(UChar32 c) {
    return c >= 0 && u_hasBinaryProperty(c, UCHAR_EXTENDED_PICTOGRAPHIC);
}

static bool ends_picture(UChar32 c) {
    return is_picture(c) || c == EMOJI_STYLE || (c >= 0 && u_hasBinaryProperty(c, UCHAR_EMOJI_MODIFIER));
}

static bool selects(UChar32 selector, UChar32 base) {
    if (base < 0 || is_invisible(base)) return false;
    if (is_ideograph_selector(selector)) return u_hasBinaryProperty(base, UCHAR_IDEOGRAPHIC);
    if (selector == TEXT_STYLE || selector == EMOJI_STYLE) return u_hasBinaryProperty(base, UCHAR_EMOJI);
    return base > 0x7f && u_isgraph(base);
}

/* Walks over a stretch. */
struct walk {
    const char *text, *at, *end;
    UChar32 last;           /* kept; -1: none */
    const char *visible_at; /* of the next character that can be seen, and itself; found when needed */
    UChar32 visible;
    const char *line_end; /* up to where `has_rtl` holds */
    bool has_rtl;
};

static UChar32 next_visible(struct walk *walk) {
    if (walk->visible_at != NULL && walk->visible_at >= walk->at) return walk->visible;
    walk->visible = -1;
    walk->visible_at = walk->end;
    for (const char *at = walk->at; at < walk->end;) {
        const char *from = at;
        UChar32 c = wane__prepare_char(&at, walk->end);
        if (is_invisible(c)) continue;
        walk->visible = c;
        walk->visible_at = from;
        break;
    }
    return walk->visible;
}

/* Has the line of `at` a letter that is written from right to left? */
static bool in_rtl_line(struct walk *walk, const char *at) {
    if (at < walk->line_end) return walk->has_rtl;
    while (at > walk->text && at[-1] != '\n') at--;
    walk->has_rtl = false;
    while (at < walk->end && *at != '\n') {
        UChar32 c = wane__prepare_char(&at, walk->end);
        if (is_invisible(c)) continue;
        UCharDirection direction = u_charDirection(c);
        if (direction == U_RIGHT_TO_LEFT || direction == U_RIGHT_TO_LEFT_ARABIC) walk->has_rtl = true;
    }
    walk->line_end = at;
    return walk->has_rtl;
}

static bool stays(struct walk *walk, UChar32 c, const char *at) {
    UChar32 last = walk->last;
    if (!is_invisible(c)) return true;
    if (is_idle(c) || is_tag(c)) return false;
    if (is_direction(c)) return in_rtl_line(walk, at);
    if (is_selector(c)) return selects(c, last);
    if (last == JOINER || last == NON_JOINER || last == ZERO_SPACE) return false;
    UChar32 next = next_visible(walk);
    if (c == ZERO_SPACE) return is_spaceless(last) && is_spaceless(next);
    if (c == JOINER && ends_picture(last) && is_picture(next)) return true;
    return joins(last) || joins(next);
}

/* The flags of England, Scotland and Wales are a black flag and letters that cannot be seen: so many bytes of them, else 0. */
static size_t flag_tags(const struct walk *walk) {
    int count = 0;
    for (const char *at = walk->at; at < walk->end;) {
        UChar32 c = wane__prepare_char(&at, walk->end);
        if (c == TAG_END) return count > 0 ? (size_t)(at - walk->at) : 0;
        if (!between(c, 0xe0020, 0xe007e) || ++count > 6) break;
    }
    return 0;
}

int wane__prepare_invisible(struct wane__prepare *prepare, const char *text, size_t size,
                            struct wane__buf *out, wane_error *error) {
    (void)error;
    struct walk walk = {.text = text, .at = text, .end = text + size, .last = -1, .line_end = text};
    const char *from = text;
    while (walk.at < walk.end) {
        const char *at = walk.at;
        UChar32 c = wane__prepare_char(&walk.at, walk.end);
        if (stays(&walk, c, at)) {
            walk.last = c;
            if (c == BLACK_FLAG) walk.at += flag_tags(&walk);
            continue;
        }
        wane__buf_append(out, from, (size_t)(at - from));
        from = walk.at;
        prepare->changes++;
    }
    wane__buf_append(out, from, (size_t)(walk.end - from));
    return WANE_OK;
}

/* ------------------------------------------------------------------ NFC */

struct units {
    UChar *from, *piece;
    char *bytes;
    int32_t count, room; /* room: of `piece` in units, and of `bytes` */
};

/* The units come from valid UTF-8: a first half is followed by its second. */
static UChar32 next_unit(const struct units *units, int32_t *at) {
    UChar32 c = units->from[(*at)++];
    if (between(c, 0xd800, 0xdbff)) c = 0x10000 + ((c - 0xd800) << 10) + (units->from[(*at)++] - 0xdc00);
    return c;
}

/* A boundary: what stands before it composes with nothing behind it. */
static int32_t next_boundary(const UNormalizer2 *nfc, const struct units *units, int32_t at) {
    if (at < units->count) next_unit(units, &at);
    while (at < units->count) {
        int32_t next = at;
        if (unorm2_hasBoundaryBefore(nfc, next_unit(units, &next))) break;
        at = next;
    }
    return at;
}

static void put(struct units *units, const UChar *from, int32_t count, struct wane__buf *out,
                UErrorCode *status) {
    int32_t bytes = 0;
    u_strToUTF8(units->bytes, units->room, &bytes, from, count, status);
    if (U_SUCCESS(*status)) wane__buf_append(out, units->bytes, (size_t)bytes);
}

/* By turns: what is composed already, which ends at a boundary, and the spot behind it. */
static void compose(struct wane__prepare *prepare, const UNormalizer2 *nfc, struct units *units,
                    struct wane__buf *out, UErrorCode *status) {
    for (int32_t at = 0; at < units->count && U_SUCCESS(*status);) {
        int32_t spot = at + unorm2_spanQuickCheckYes(nfc, units->from + at, units->count - at, status);
        int32_t stop = next_boundary(nfc, units, spot);
        put(units, units->from + at, spot - at, out, status);
        int32_t size =
            unorm2_normalize(nfc, units->from + spot, stop - spot, units->piece, units->room, status);
        if (U_FAILURE(*status)) return;
        if (size != stop - spot || u_memcmp(units->piece, units->from + spot, size) != 0) prepare->changes++;
        put(units, units->piece, size, out, status);
        at = stop;
    }
}

int wane__prepare_nfc(struct wane__prepare *prepare, const char *text, size_t size, struct wane__buf *out,
                      wane_error *error) {
    UErrorCode status = U_ZERO_ERROR;
    const UNormalizer2 *nfc = unorm2_getNFCInstance(&status);
    struct units units = {.from = wane__alloc((size + 1) * sizeof(UChar)),
                          .piece = wane__alloc((4 * size + 1) * sizeof(UChar)),
                          .bytes = wane__alloc(4 * size + 1),
                          .room = (int32_t)(4 * size + 1)};
    int code = WANE_OK;
    if (units.from == NULL || units.piece == NULL || units.bytes == NULL)
        code = wane__fail(error, WANE_ENOMEM, "No memory for a text of %zu bytes.", size);
    if (code == WANE_OK)
        u_strFromUTF8(units.from, (int32_t)size + 1, &units.count, text, (int32_t)size, &status);
    if (code == WANE_OK && U_SUCCESS(status)) compose(prepare, nfc, &units, out, &status);
    if (code == WANE_OK && U_FAILURE(status))
        code = wane__fail(error, WANE_EINTERNAL, "ICU cannot normalise the text: %s.", u_errorName(status));
    wane__free(units.from);
    wane__free(units.piece);
    wane__free(units.bytes);
    return code;
}

/*
 * recent.h - the last words of a context: what rules look at. A bounded copy of the text's end, the reply's part of it known.
 */
#ifndef WANE_CORRECT_RECENT_H
#define WANE_CORRECT_RECENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Characters that a pattern sees, and bytes that they have at most. */
#define WANE__RECENT_CHARACTERS 200
#define WANE__RECENT_BYTES      (4 * WANE__RECENT_CHARACTERS)

struct wane__recent { /* start from {0} */
    char text[2 * WANE__RECENT_BYTES];
    int size;
    int reply; /* where the reply begins in it */
};

/* The text of one token more; may end within a character. */
void wane__recent_add(struct wane__recent *recent, const char *bytes, size_t size, bool of_reply);
/*
 * The last WANE__RECENT_CHARACTERS characters, of the reply alone or of the whole context, as UTF-16 in `out`, which has room for
 * two units a character. What is no UTF-8 becomes U+FFFD; a character that is not complete yet is left out. Returns the units.
 */
int wane__recent_window(const struct wane__recent *recent, bool reply_only, uint16_t *out);

#endif

/*
 * wane/ssp.h - the structured system instruction: one line of the system text that sets the policy of a request. Part of wane.h.
 *
 *     SSP:domain=legal;confidence=high;tolerance=strict;fallback=conservative
 *
 * Pure functions: bytes in, a policy out; a policy and settings in, settings out. docs/ssp.md has the table of effects.
 */
#ifndef WANE_SSP_H
#define WANE_SSP_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WANE_SSP_DOMAIN = 0, WANE_SSP_CONFIDENCE, WANE_SSP_TOLERANCE, WANE_SSP_FALLBACK, WANE_SSP_KEYS };

/* Of each key 0 is: not given. */
enum {
    WANE_SSP_LEGAL = 1,
    WANE_SSP_MEDICAL,
    WANE_SSP_FINANCE,
    WANE_SSP_TECH,
    WANE_SSP_CREATIVE,
    WANE_SSP_DOMAINS
};
enum { WANE_SSP_HIGH = 1, WANE_SSP_MEDIUM, WANE_SSP_LOW };
enum { WANE_SSP_STRICT = 1, WANE_SSP_BALANCED, WANE_SSP_LENIENT };
enum { WANE_SSP_CONSERVATIVE = 1, WANE_SSP_TRANSPARENT, WANE_SSP_NONE };

/* Start from {0}: no instruction. */
typedef struct wane_ssp {
    bool given;
    int value[WANE_SSP_KEYS]; /* by key */
    /* The settings that it is applied to are already those of its domain: then the domain's row of the table is left out. */
    bool settled;
} wane_ssp;

/*
 * Read the instruction at the beginning of a text: on its first line that is not blank. `rest` receives where the text goes on
 * behind it and the blank lines that follow; 0, with `ssp->given` false, where there is none. WANE_EINVAL with a sentence that
 * names key, value and what is allowed; so also where a later line looks like one.
 */
WANE_API int wane_ssp_read(const char *text, size_t size, wane_ssp *ssp, size_t *rest, wane_error *error);

/* Carry out the table on settings of a server or a domain. The mode becomes WANE. What wane_quality_check takes stays in its ranges. */
WANE_API void wane_ssp_apply(const wane_ssp *ssp, wane_quality *quality);

/* The SST of a domain; 1 for 0 and for what is none. */
WANE_API float wane_ssp_stability(int domain);

/* "domain"; NULL for what is no key. */
WANE_API const char *wane_ssp_key_name(int key);
/* "legal"; NULL for what is no value of it. */
WANE_API const char *wane_ssp_value_name(int key, int value);
/* The value of that name, any case; 0: there is none. */
WANE_API int wane_ssp_value_from(int key, const char *name);

#define WANE_SSP_TEXT 100
/* "SSP:domain=legal;confidence=high", "" where nothing is given; `out` has room for WANE_SSP_TEXT bytes. Returns `out`. */
WANE_API char *wane_ssp_write(const wane_ssp *ssp, char *out);

#ifdef __cplusplus
}
#endif

#endif

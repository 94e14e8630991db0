/*
 * wane/domains.h - which domain a text is of: legal, medical, finance, tech, creative, or none that can be told. A linear classifier
 * over hashed n-grams; docs/domains.md has its method and its figures.
 */
#ifndef WANE_DOMAINS_H
#define WANE_DOMAINS_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WANE_DOMAINS_MOST = 7 };
/* What a server makes of the domain that a request's SSP names: takes it; takes it, and says when the text looks like another; takes the text's. */
enum { WANE_SSP_DOMAIN_GIVEN = 0, WANE_SSP_DOMAIN_CHECK, WANE_SSP_DOMAIN_AUTO };

/*
 * A wane_classifier never changes: any number of threads may use one.
 *
 * `path` NULL: the one that ships. WANE_ENOENT: there is none; WANE_EFORMAT: it is damaged, or no classifier.
 */
WANE_API int wane_classifier_open(const char *path, wane_classifier **classifier, wane_error *error);
WANE_API void wane_classifier_free(wane_classifier *classifier);

typedef struct wane_classification {
    const char *domain; /* "none": unsure; lives as long as the classifier */
    const char *likely; /* the best one, sure or not                       */
    double share;       /* of that one, 0..1                               */
    double threshold;   /* below it: none                                  */
    int count;
    struct {
        const char *domain;
        double share; /* with what is left for none they add up to 1 */
    } all[WANE_DOMAINS_MOST];
} wane_classification;

/* Of a text longer than 8,192 bytes, the first and the last 4,096 count. What is not UTF-8 counts as U+FFFD. */
WANE_API int wane_classify(const wane_classifier *classifier, const char *text, size_t size,
                           wane_classification *classification, wane_error *error);

/* ---------------------------------------------------------------- training */

typedef struct wane_domains_train_options {
    size_t size;
    const char *const
        *data; /* JSONL files: {"domain": …, "language": …, "text": …}; domain "none": of no domain */
    size_t data_count;
    const char *held_out;      /* the same, to be measured on and never learned; NULL: none */
    const char *output;        /* the classifier's file; NULL: only the report              */
    uint64_t seed;             /* of the order in which texts are learned; default 1        */
    wane_progress_fn progress; /* NULL: none */
    void *progress_user;
} wane_domains_train_options;

/* So many of so many right, with Wilson's interval, 95 %. */
typedef struct wane_share {
    uint64_t right, all;
    double low, high; /* NaN: there were none */
} wane_share;

typedef struct wane_domains_report {
    uint64_t texts, held_texts;
    int domains, languages;
    int general;                            /* 1: there were texts of no domain to learn from */
    char domain[WANE_DOMAINS_MOST + 1][16]; /* the last one: none */
    char language[WANE_DOMAINS_MOST][16];
    double threshold;
    uint64_t bytes; /* of the file */
    /* On held-out texts. */
    wane_share all;                                                   /* "none" texts included              */
    wane_share of_domains;                                            /* without them                       */
    wane_share taken;                                                 /* of texts that were given a domain  */
    wane_share by_language[WANE_DOMAINS_MOST];                        /* in the order of `language`         */
    uint64_t confusion[WANE_DOMAINS_MOST + 1][WANE_DOMAINS_MOST + 1]; /* [is][taken for]; the last: none */
    double seconds;
} wane_domains_report;

WANE_API void wane_domains_train_options_init(wane_domains_train_options *options);
/* The same data and seed give the same bytes. WANE_EFORMAT names file and line. `report` may be NULL. */
WANE_API int wane_domains_train(const wane_domains_train_options *options, wane_domains_report *report,
                                wane_error *error);

#ifdef __cplusplus
}
#endif

#endif

/* rules_internal.h - a set of rules, seen by the file that reads it (rules_parse.c) and the one that applies it (rules.c). */
#ifndef WANE_CORRECT_RULES_INTERNAL_H
#define WANE_CORRECT_RULES_INTERNAL_H

#include "correct/rules.h"

#include <unicode/uregex.h>

struct wane__rule {
    char *name;
    URegularExpression *pattern;
    bool context;        /* sees the prompt as well */
    signed char matched; /* on the text under way: -1 not tried yet */
};

struct wane__rule_pair {
    int32_t token, rule;
};

struct wane__rules {
    struct wane__rule *rule;
    int count;
    struct wane__rule_pair *pair; /* ascending by token, then rule; no two alike */
    int pairs, capacity;
    bool see_prompt;
    uint64_t digest[2];
    int left; /* words that hold nothing; of the first: */
    char *left_word;
    int left_rule;
    UChar window[2][2 * WANE__RECENT_CHARACTERS]; /* reply, context */
    int units[2];                                 /* -1: not made yet */
};

#endif

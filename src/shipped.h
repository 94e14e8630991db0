/* shipped.h - where files that come with wane lie: rules, gates. */
#ifndef WANE_SHIPPED_H
#define WANE_SHIPPED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The path of `file`, such as "rules/prohibitions.json", in the first place that has it: beside the library that runs (an installation
 * may be moved), where it was to be installed, in the tree that it was built from. False: none has.
 */
bool wane__shipped(const char *file, char *out, size_t room);

#endif

/*
 * dtg.h - the threshold of a request, once, from its prompt: how sure the gate must be that a vote would change nothing.
 *
 *     tau = odds_base + odds_entropy · log2(1 + H), and odds_documents more for a prompt with more than `documents` documents
 *
 * H is the Shannon entropy of the prompt's tokens in bits: a prompt of many different tokens asks for more than one that repeats
 * itself.
 */
#ifndef WANE_GATE_DTG_H
#define WANE_GATE_DTG_H

#include "wane.h"

/* H of the frequencies of `count` tokens; 0 for none. Needs memory for a copy of them: WANE_ENOMEM. */
int wane__gate_entropy(const int32_t *tokens, size_t count, double *bits, wane_error *error);

/*
 * How many documents a prompt's text holds: the most that one of three ways of setting them apart says. 0: none is set apart.
 *   - opening tags of one name: <document>, <doc …>, <passage>, <article>, <source>, <file>, <snippet>, in any case;
 *   - lines that begin with such a word and a number: "Document 3:", "## Source #2", "[Doc 1]", "文档一"; marks may stand before it;
 *   - stretches of text between lines of three or more of the same of - = * _ ~ that stand behind an empty line.
 */
int wane__gate_documents(const char *text, size_t size);

float wane__gate_tau(const wane_quality *quality, double entropy, int documents);

#endif

/* elf.h - the little of a program's file that says who loads it. */
#ifndef WANE_CORE_ELF_H
#define WANE_CORE_ELF_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The loader that an ELF program of this machine's word size and byte order names ("/lib64/ld-linux-x86-64.so.2"), from the first `size`
 * bytes of its file. False: no such file, no loader (a static program), or it is damaged.
 */
bool wane__elf_loader(const void *bytes, size_t size, char *out, size_t room);
/*
 * The path of the libllama in what a loader prints with --list: lines of "	name => path (address)". Not libllama-common and
 * others whose name only begins so. False: there is none.
 */
bool wane__elf_find_llama(const char *list, size_t size, char *out, size_t room);

#endif

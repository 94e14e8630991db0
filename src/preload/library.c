/*
 * library.c - which libllama a call was meant for.
 *
 * A program that is linked to libllama has it in the scope that everybody shares, and "the next one behind us" is it. A
 * plug-in (a .node file, a Python extension) brings its own, in a scope of its own, perhaps beside another plug-in's.
 * So the caller is asked: the object that the call came from, and the libraries that this one was linked to. What was
 * found for an object is kept by its address range, so that a call costs a few comparisons.
 *
 * Refuses to guess: where no other library has the function, there is none, and the call fails as libllama's would.
 */
#include "preload/preload.h"

#include "core/memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#ifdef __linux__
#include <link.h>
#endif

enum { RANGES = 256, LIBRARIES = 16, OBJECTS = 512 };

struct range {
    const char *from, *to;
    struct wane__library *library;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range ranges[RANGES];
static _Atomic int range_count;
static struct wane__library *libraries[LIBRARIES];
static int library_count;
static struct wane__library *_Atomic seen;

struct wane__library *wane__library_seen(void) {
    return atomic_load(&seen);
}

void wane__library_reset_lock(void) {
    pthread_mutex_init(&lock, NULL);
}

/* The object that holds an address. */
static bool object_of(const void *address, Dl_info *info) {
    return dladdr(address, info) != 0 && info->dli_fbase != NULL;
}

static const void *own_base(void) {
    static const char here = 0; /* an object of ours */
    Dl_info info;
    return object_of(&here, &info) ? info.dli_fbase : NULL;
}

bool wane__library_holds(const struct wane__library *library, const void *address) {
    Dl_info info;
    const char *at = address;
    if (library->end != NULL) return at >= library->base && at < library->end;
    return object_of(address, &info) && info.dli_fbase == library->base;
}

/* ------------------------------------------------------------------ finding */

/* A function of a foreign libllama, or NULL. */
static void *foreign(void *symbol) {
    Dl_info info;
    return symbol != NULL && object_of(symbol, &info) && info.dli_fbase != own_base() ? symbol : NULL;
}

#ifdef __linux__
struct object_list {
    char *name[OBJECTS];
    int count;
};

static int note_object(struct dl_phdr_info *info, size_t size, void *user) {
    (void)size;
    struct object_list *list = user;
    if (info->dlpi_name == NULL || info->dlpi_name[0] == '\0' || list->count == OBJECTS) return 0;
    char *name = wane__copy_string(info->dlpi_name);
    if (name != NULL) list->name[list->count++] = name;
    return 0;
}

/* Any loaded object that has it: for callers that belong to nobody (code made at run time, libffi). */
static void *find_anywhere(const char *function) {
    struct object_list list = {.count = 0};
    void *found = NULL;
    dl_iterate_phdr(note_object, &list);
    for (int i = 0; i < list.count; i++) {
        void *handle = found == NULL ? dlopen(list.name[i], RTLD_NOLOAD | RTLD_LAZY) : NULL;
        if (handle != NULL) {
            found = foreign(dlsym(handle, function));
            dlclose(handle);
        }
        wane__free(list.name[i]);
    }
    return found;
}
#else
static void *find_anywhere(const char *function) {
    return foreign(dlsym(RTLD_DEFAULT, function));
}
#endif

static void *find_for(const Dl_info *caller, const char *function) {
    void *handle = caller->dli_fname != NULL ? dlopen(caller->dli_fname, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    void *found = handle != NULL ? foreign(dlsym(handle, function)) : NULL;
    if (handle != NULL) dlclose(handle);
    if (found == NULL) found = foreign(dlsym(RTLD_NEXT, function));
    return found != NULL ? found : find_anywhere(function);
}

/* ------------------------------------------------------------------ opening */

static void *find_in(void *user, const char *name) {
    return dlsym(user, name);
}

static const char *const wrapped[] = {
#define WRAPPED_NAME(name) #name,
    WANE__WRAPPED(WRAPPED_NAME)
#undef WRAPPED_NAME
};

/* Where that object's memory ends: code lies between its base and there. */
static const char *end_of(const Dl_info *info) {
#ifdef __linux__
    const ElfW(Ehdr) *head = info->dli_fbase;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_phentsize != sizeof(ElfW(Phdr))) return NULL;
    const ElfW(Phdr) *part = (const void *)((const char *)head + head->e_phoff);
    size_t size = 0;
    bool relative = head->e_type == ET_DYN;
    for (int i = 0; i < head->e_phnum; i++)
        if (part[i].p_type == PT_LOAD && part[i].p_vaddr + part[i].p_memsz > size)
            size = part[i].p_vaddr + part[i].p_memsz;
    return relative ? (const char *)head + size : (const char *)size;
#else
    (void)info;
    return NULL;
#endif
}

static struct wane__library *open_library(const Dl_info *where) {
    for (int i = 0; i < library_count; i++)
        if (libraries[i]->base == where->dli_fbase) return libraries[i];
    if (library_count == LIBRARIES) return NULL;
    /* Never closed again: the functions stay where they are as long as we may call them. */
    void *handle = dlopen(where->dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    struct wane__library *made = handle != NULL ? wane__alloc_zero(1, sizeof *made) : NULL;
    if (made == NULL) return NULL;
    made->base = where->dli_fbase;
    made->end = end_of(where);
    for (int i = 0; i < WANE__WRAP_COUNT; i++) {
        void *symbol = foreign(dlsym(handle, wrapped[i]));
        memcpy(&made->real[i], &symbol, sizeof symbol);
    }
    wane_error error = {0};
    made->known = wane__abi_open(find_in, handle, &made->abi, &error) == WANE_OK;
    if (!made->known) {
        snprintf(made->reason, sizeof made->reason, "%s", error.text);
        wane__under_say("%s: %s; the program runs as it would without wane", where->dli_fname, error.text);
    }
    libraries[library_count++] = made;
    atomic_store(&seen, made);
    return made;
}

static struct wane__library *find_library(const void *caller) {
    Dl_info info = {0}, where = {0};
    bool named = object_of(caller, &info);
    void *function = find_for(&info, "llama_decode");
    if (function == NULL || !object_of(function, &where)) return NULL;
    struct wane__library *library = open_library(&where);
    int at = atomic_load(&range_count);
    const char *end = named ? end_of(&info) : NULL;
    if (library != NULL && end != NULL && at < RANGES) {
        ranges[at] = (struct range){info.dli_fbase, end, library};
        atomic_store_explicit(&range_count, at + 1, memory_order_release);
    }
    return library;
}

struct wane__library *wane__library_of(const void *caller) {
    const char *address = caller;
    int known = atomic_load_explicit(&range_count, memory_order_acquire);
    for (int i = 0; i < known; i++)
        if (address >= ranges[i].from && address < ranges[i].to) return ranges[i].library;
    pthread_mutex_lock(&lock);
    struct wane__library *library = find_library(caller);
    pthread_mutex_unlock(&lock);
    return library;
}

/* Entries taken apart quickly: nearly all begin as the ones at the same place of the record before did. */
#ifndef BEAM_DATASETS_KNOWN_H
#define BEAM_DATASETS_KNOWN_H

#include "decode.h"

/* How the entry at a place began in the record before. Its head is its name with tag and length, and the tag of the
 * feature; before that stand its own tag and length, which are two bytes where it is short. */
typedef struct {
    Span head;
    Py_ssize_t least;           /* bytes that must be there to look for it; more than there are where none is known */
    size_t size, tail;          /* of the head; where the entry's eight bytes begin that end with it */
    uint64_t first, first_mask; /* the entry's first eight bytes, and which bits of them are known */
    uint64_t last, last_mask;   /* the same of those from the tail on */
    const Field *field;         /* NULL if it is not in the schema */
} Known;

/* Takes an entry apart that begins as the one before did and is short, as most are. Where the next one is hangs on
 * one byte of it, so that the processor looks at several at once. */
static inline int take_known(const Known *known, Span *entries, Span *feature) {
    const uint8_t *at = entries->at;
    Py_ssize_t left = entries->end - at;
    size_t size = known->size;
    if (left < known->least) return 0;
    if ((u64_at(at) & known->first_mask) != known->first) return 0;
    if ((u64_at(at + known->tail) & known->last_mask) != known->last) return 0;
    if (size > 14 && memcmp(at + 8, known->head.at + 6, size - 14) != 0) return 0; /* what is between them */
    size_t length = at[1];
    if (at[2 + size] + size + 1 != length || (Py_ssize_t)length > left - 2) return 0;
    *feature = (Span){at + size + 3, entries->at = at + 2 + length};
    return 1;
}

/* Sets eight bytes of an entry, from a place on, as they are known to be, and which bits of them are known. */
static inline void know_bytes(Span head, size_t place, uint64_t *known, uint64_t *mask) {
    uint8_t bytes[8] = {0}, bits[8] = {0};
    for (size_t i = 0; i < 8; i++, place++) {
        if (place >= 2 + (size_t)(head.end - head.at)) break;
        bytes[i] = place == 0 ? ENTRY : place == 1 ? 0 : head.at[place - 2];
        bits[i] = place == 1 ? 128 : 255; /* of a length what makes it one of one byte */
    }
    memcpy(known, bytes, 8);
    memcpy(mask, bits, 8);
}

/* Returns how entries begin that have this head: three bytes with an empty name, else more. */
static inline Known known_of(Span head, const Field *field) {
    size_t size = (size_t)(head.end - head.at), tail = size > 6 ? size - 6 : 0;
    Known known = {.head = head, .size = size, .tail = tail, .least = (Py_ssize_t)size + 10, .field = field};
    know_bytes(head, 0, &known.first, &known.first_mask);
    know_bytes(head, tail, &known.last, &known.last_mask);
    return known;
}

/* Takes any entry apart, and notes how it begins. */
static inline int take_entry(const Schema *schema, Known *known, Span *entries, Span *feature) {
    Span entry, name;
    if (!take(entries, ENTRY, &entry)) return 0;
    const uint8_t *start = entry.at;
    if (!take(&entry, NAME, &name) || entry.at == entry.end) return 0;
    Span head = {start, entry.at + 1};
    if (!same(head, known->head)) *known = known_of(head, schema_find(schema, name));
    return take(&entry, FEATURE, feature) && entry.at == entry.end;
}

/* Skips entries that are not in the schema and begin as the ones before did; returns what is known of the next one. */
static inline Known *pass_by(Known *known, const Known *last, Span *entries) {
    Span feature;
    while (known < last && known->field == NULL && take_known(known, entries, &feature)) known++;
    return known;
}

#endif

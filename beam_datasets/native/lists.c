/* Lists of numbers in a record: packed or not, as protobuf reads them. */
#include "decode.h"

static inline uint64_t load(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

/* One bit for each of 64 bytes: whether a varint ends there. */
static inline uint64_t ends_of(const uint8_t *at) {
    uint64_t ends = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t high = ~load(at + 8 * i) >> 7 & 0x0101010101010101u;
        ends |= (high * 0x0102040810204080u >> 56) << 8 * i; /* the eight bits meet in the highest byte */
    }
    return ends;
}

/* What belongs to the varint that a word of eight bytes begins with, by how many bytes it has. */
static const uint64_t KEEP[9] = {
    0,
    0x7f,
    0x7f7f,
    0x7f7f7f,
    0x7f7f7f7f,
    0x7f7f7f7f7f,
    0x7f7f7f7f7f7f,
    0x7f7f7f7f7f7f7f,
    0x7f7f7f7f7f7f7f7f,
};

/* Pushes together the lower seven bits of the eight bytes of each word, whose highest bits are 0. */
static inline void fold(uint64_t *words, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t word = words[i];
        word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
        word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
        words[i] = (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
    }
}

static inline int first_bit(uint64_t word) {
#if defined(__GNUC__)
    return __builtin_ctzll(word);
#else
    int i = 0;
    while (!(word >> i & 1)) i++;
    return i;
#endif
}

/* Takes one varint off the front. One that has bits beyond the 64th is refused. */
static inline int take_varint(Span *rest, int64_t *number) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70 && rest->at < rest->end; shift += 7) {
        uint8_t byte = *rest->at++;
        if (shift == 63 && byte > 1) return 0;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte & 128) continue;
        *number = (int64_t)value;
        return 1;
    }
    return 0;
}

/* Takes the varints of 64 bytes at a time off the front, while they have at most eight bytes; returns how many.
 *
 * Where they end is known before any is looked at, so that none waits for the one before it. */
static Py_ssize_t take_many(Span *rest, uint64_t *numbers, Py_ssize_t room) {
    Py_ssize_t n = 0;
    while (rest->end - rest->at >= 72 && room - n >= 64) {
        int start = 0, some = 0;
        for (uint64_t ends = ends_of(rest->at); ends; ends &= ends - 1) {
            int stop = first_bit(ends) + 1;
            if (stop - start > 8) break;
            numbers[n + some++] = load(rest->at + start) & KEEP[stop - start];
            start = stop;
        }
        fold(numbers + n, some);
        n += some;
        rest->at += start;
        if (start <= 56) break; /* a longer one follows */
    }
    return n;
}

/* Reads varints up to the end; returns how many, or -1. */
static Py_ssize_t read_varints(Span rest, int64_t *numbers, Py_ssize_t room) {
    Py_ssize_t n = 0;
    while (rest.at < rest.end) {
        n += take_many(&rest, (uint64_t *)numbers + n, room - n);
        for (int some = 0; some < 32 && rest.at < rest.end; some++) {
            if (n == room || !take_varint(&rest, numbers + n)) return -1;
            n++;
        }
    }
    return n;
}

static Py_ssize_t count_varints(Span rest) {
    Py_ssize_t n = 0;
    while (rest.end - rest.at >= 8) {
        uint64_t sums = 0; /* of eight columns of bytes */
        for (int i = 0; i < 255 && rest.end - rest.at >= 8; i++, rest.at += 8)
            sums += ~load(rest.at) >> 7 & 0x0101010101010101u;
        sums = (sums & 0x00ff00ff00ff00ffu) + (sums >> 8 & 0x00ff00ff00ff00ffu);
        n += (Py_ssize_t)(sums * 0x0001000100010001u >> 48);
    }
    while (rest.at < rest.end) n += *rest.at++ < 128;
    return n;
}

/* Takes the next values of a list, one that is not packed or any number that are, off the front. */
static int take_values(int kind, Span *list, Span *values) {
    uint8_t tag = *list->at;
    if (tag == VALUES) return take(list, VALUES, values);
    if (tag != (kind == FLOATS ? ONE_FLOAT : ONE_INTEGER)) return 0;
    Py_ssize_t size = 1, left = list->end - list->at - 1;
    if (kind == FLOATS)
        size = 4;
    else
        while (size < left && list->at[size] & 128) size++;
    if (size > left) return 0;
    *values = (Span){list->at + 1, list->at + 1 + size};
    list->at = values->end;
    return 1;
}

static Py_ssize_t read_floats(Span values, char *floats, Py_ssize_t room) {
    Py_ssize_t size = values.end - values.at;
    if (size % 4 || size / 4 > room) return -1;
    if (floats != NULL && size) memcpy(floats, values.at, (size_t)size);
    return size / 4;
}

Py_ssize_t read_numbers(int kind, Span list, char *numbers, Py_ssize_t room) {
    Py_ssize_t n = 0, some;
    while (list.at < list.end) {
        Span values;
        if (!take_values(kind, &list, &values)) return -1;
        char *place = numbers == NULL ? NULL : numbers + n * number_size(kind);
        if (kind == FLOATS)
            some = read_floats(values, place, room - n);
        else
            some = place == NULL ? count_varints(values) : read_varints(values, (int64_t *)place, room - n);
        if (some < 0 || some > room - n) return -1;
        n += some;
    }
    return n;
}

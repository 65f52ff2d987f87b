/* Rows of a small image -> the stream that its PNG has of them, the same as features/png_stream.py makes, to the bit.
 *
 * There is said what is chosen and why; the format is RFC 1950 and RFC 1951. A small image is some hundred symbols, so
 * nothing here is more than a few passes over these, without branches where they could not be foreseen.
 */
#include "native.h"

#define MOST_BYTES 8190 /* with the end of the block fewer than 2^13 symbols */
#define MOST_ADDED 24   /* bytes of room behind the data's: a stream has 11 more at most, and 8 are written at once */
#define MOST_BEGINNING 64
#define LITERALS 256
#define END_OF_BLOCK 256
#define LONGEST_RUN 258
#define SHORTEST_RUN 3
#define LENGTH_SYMBOLS 286 /* bytes, the end of the block, lengths of runs */
#define SYMBOLS 288        /* with two that never occur, but take part in the fixed code */
#define LONGEST_CODE 13
#define META_SYMBOLS 19 /* lengths of codes, and repetitions of these */
#define METAS_TOLD 18   /* the last one does not occur, the last but one does always */
#define REPEAT 16       /* the length before, 3 to 6 times */
#define FEW_ZEROS 17    /* 3 to 10 */
#define MANY_ZEROS 18   /* 11 to 138 */

static const uint8_t extra_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                       2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint8_t base_length[29] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  10,  12,  14,  16,  20, 24,
                                        28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 255};
static const uint8_t meta_order[METAS_TOLD] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1};
static const uint8_t meta_extra[META_SYMBOLS] = {[REPEAT] = 2, [FEW_ZEROS] = 3, [MANY_ZEROS] = 7};

/* A code of some symbols. */
typedef struct {
    int used;                     /* how many symbols occur */
    uint16_t symbols[SYMBOLS];    /* which */
    uint16_t counts[SYMBOLS];     /* of each symbol: how often it occurs */
    uint8_t lengths[SYMBOLS + 2]; /* of its code */
    uint16_t codes[SYMBOLS];      /* in the order in which the bits are written */
} Code;

/* What is the same for all data. */
static uint8_t bit_length[MOST_BYTES + 2];
static uint8_t symbol_of_run[LONGEST_RUN - SHORTEST_RUN + 1];
static Code fixed_code;

/* -------------------------------------------------------------------------------------------------------- the code */

static void find_used(Code *code, int symbols) {
    for (int n = 0; n < symbols; n++) {
        code->symbols[code->used] = (uint16_t)n;
        code->used += code->counts[n] != 0;
    }
}

/* Chooses the lengths. Symbols of one class have lost about the same by rounding, and have codes as long. */
static void choose_lengths(Code *code) {
    uint32_t total = 0, left = 1 << LONGEST_CODE;
    uint8_t classes[SYMBOLS]; /* of those used: 16 * how little they lost + length */
    for (int i = 0; i < code->used; i++) total += code->counts[code->symbols[i]];
    for (int i = 0; i < code->used; i++) {
        uint32_t count = code->counts[code->symbols[i]], length = (uint32_t)bit_length[total] - bit_length[count];
        length += count << length < total;
        uint32_t lost = 4 * ((count << length) - total);
        classes[i] = (uint8_t)(16 * ((lost < total) + (lost < 2 * total)) + length);
        left -= 1u << (LONGEST_CODE - length);
    }
    while (left) { /* less than half, so that no code of one bit loses it */
        uint16_t numbers[3 * 16] = {0}; /* how many there are of a class, then how many of them lose a bit */
        for (int i = 0; i < code->used; i++) numbers[classes[i]]++;
        for (int class = 0; class < 3 * 16; class++) {
            if (numbers[class] == 0) continue;
            int cost = LONGEST_CODE - (class & 15);
            if (numbers[class] > left >> cost) numbers[class] = (uint16_t)(left >> cost);
            left -= (uint32_t)numbers[class] << cost;
        }
        for (int i = 0; i < code->used; i++) {
            int loses = numbers[classes[i]] != 0;
            numbers[classes[i]] -= loses;
            classes[i] -= loses;
        }
    }
    for (int i = 0; i < code->used; i++) code->lengths[code->symbols[i]] = classes[i] & 15;
}

/* Gives each symbol its code: in the order of the lengths, then of the symbols. */
static void assign_codes(Code *code) {
    uint32_t next[17] = {0}, counts[16] = {0};
    for (int i = 0; i < code->used; i++) counts[code->lengths[code->symbols[i]]]++;
    for (int length = 1; length <= 15; length++) next[length + 1] = (next[length] + counts[length]) << 1;
    for (int i = 0; i < code->used; i++) {
        int symbol = code->symbols[i], length = code->lengths[symbol];
        uint32_t bits = next[length]++; /* to be turned round */
        bits = (bits & 0x5555) << 1 | (bits >> 1 & 0x5555);
        bits = (bits & 0x3333) << 2 | (bits >> 2 & 0x3333);
        bits = (bits & 0x0F0F) << 4 | (bits >> 4 & 0x0F0F);
        bits = (bits & 0x00FF) << 8 | bits >> 8;
        code->codes[symbol] = (uint16_t)(bits >> (16 - length));
    }
}

/* How many bits the symbols take by a code. */
static uint32_t cost(const Code *code, const uint8_t *lengths) {
    uint32_t bits = 0;
    for (int i = 0; i < code->used; i++) bits += (uint32_t)code->counts[code->symbols[i]] * lengths[code->symbols[i]];
    return bits;
}

void deflate_init(void) {
    for (int n = 1; n < MOST_BYTES + 2; n++) bit_length[n] = (uint8_t)(bit_length[n / 2] + 1);
    for (int symbol = 0; symbol < 29; symbol++)
        for (int run = base_length[symbol]; run < base_length[symbol] + (1 << extra_bits[symbol]) && run < 256; run++)
            symbol_of_run[run] = (uint8_t)symbol;
    fixed_code.used = SYMBOLS;
    for (int n = 0; n < SYMBOLS; n++) {
        fixed_code.symbols[n] = (uint16_t)n;
        fixed_code.lengths[n] = n < 144 ? 8 : n < 256 ? 9 : n < 280 ? 7 : 8;
    }
    assign_codes(&fixed_code);
}

/* ------------------------------------------------------------------------------------------------------ the stream */

typedef struct {
    uint8_t *at;
    uint64_t pending; /* bits that are not written yet, the first ones lowest */
    int count;        /* of them; fewer than 8 after `put` */
} Bits;

/* Writes some bits; at most 32, so that the pending ones have room. */
static inline void put(Bits *bits, uint32_t value, int count) {
    bits->pending |= (uint64_t)value << bits->count;
    bits->count += count;
    for (int i = 0; i < 8; i++) bits->at[i] = (uint8_t)(bits->pending >> (8 * i)); /* one instruction */
    bits->at += bits->count >> 3;
    bits->pending >>= bits->count & ~7;
    bits->count &= 7;
}

/* Whether three bytes follow that repeat the one before. */
static inline int begins_run(const uint8_t *data, size_t size, size_t i) {
    return i && i + SHORTEST_RUN <= size &&
           !((data[i] ^ data[i - 1]) | (data[i + 1] ^ data[i - 1]) | (data[i + 2] ^ data[i - 1]));
}

/* Divides data into bytes and runs: tokens below 256 are bytes, others 256 + a run's length - SHORTEST_RUN. Each run is
 * as long as it can be, and repeats the byte before it. Returns how many tokens there are. */
static int divide(const uint8_t *data, size_t size, uint16_t *tokens, uint16_t *counts) {
    int count = 0;
    for (size_t i = 0; i < size;) {
        if (begins_run(data, size, i)) {
            size_t run = SHORTEST_RUN, most = size - i < LONGEST_RUN ? size - i : LONGEST_RUN;
            while (run < most && data[i + run] == data[i - 1]) run++;
            tokens[count++] = (uint16_t)(LITERALS + run - SHORTEST_RUN);
            counts[END_OF_BLOCK + 1 + symbol_of_run[run - SHORTEST_RUN]]++;
            i += run;
        } else {
            tokens[count++] = data[i];
            counts[data[i++]]++;
        }
    }
    counts[END_OF_BLOCK] = 1;
    return count;
}

/* Writes tokens and the end of the block. The code of the distance of runs is `distance` zeros. */
static void put_tokens(Bits *bits, const uint16_t *tokens, int count, const Code *code, int distance) {
    Bits out = *bits;
    for (int i = 0; i < count; i++) {
        int token = tokens[i];
        if (token < LITERALS) {
            put(&out, code->codes[token], code->lengths[token]);
        } else {
            int run = token - LITERALS, n = symbol_of_run[run], symbol = END_OF_BLOCK + 1 + n;
            uint32_t extra = (uint32_t)(run - base_length[n]);
            put(&out, code->codes[symbol] | extra << code->lengths[symbol],
                code->lengths[symbol] + extra_bits[n] + distance);
        }
    }
    put(&out, code->codes[END_OF_BLOCK], code->lengths[END_OF_BLOCK]);
    *bits = out;
}

/* The lengths of a code as they are told: by themselves, or by how often they are repeated. */
typedef struct {
    int count;
    uint16_t told[SYMBOLS]; /* symbols, and the numbers behind them times 32 */
    Code code;              /* of the symbols */
} Lengths;

/* Tells `size` lengths; behind them must be two more bytes, the first one no length that a code has. */
static void tell_lengths(Lengths *lengths, const uint8_t *of, int size) {
    uint16_t *told = lengths->told;
    for (int n = 0, before = UINT8_MAX; n < size;) {
        int length = of[n], three = !((of[n + 1] ^ length) | (of[n + 2] ^ length));
        if (three && (length == 0 || length == before)) {
            int same = 3, most = length ? 6 : 138;
            while (same < most && of[n + same] == length) same++;
            int symbol = length ? REPEAT : same <= 10 ? FEW_ZEROS : MANY_ZEROS;
            *told++ = (uint16_t)((same - (symbol == MANY_ZEROS ? 11 : 3)) << 5 | symbol);
            n += same;
        } else {
            *told++ = (uint16_t)length;
            n++;
        }
        before = length;
    }
    Code *code = &lengths->code;
    lengths->count = (int)(told - lengths->told);
    for (int i = 0; i < lengths->count; i++) code->counts[lengths->told[i] & 31]++;
    find_used(code, META_SYMBOLS);
    int more = (lengths->count + META_SYMBOLS) >> 7; /* so that no code has more than 7 bits */
    for (int i = 0; i < code->used; i++) code->counts[code->symbols[i]] += (uint16_t)more;
    choose_lengths(code);
    assign_codes(code);
}

static uint32_t bits_of_lengths(const Lengths *lengths) {
    uint32_t bits = 5 + 5 + 4 + 3 * METAS_TOLD;
    for (int i = 0; i < lengths->count; i++)
        bits += (uint32_t)lengths->code.lengths[lengths->told[i] & 31] + meta_extra[lengths->told[i] & 31];
    return bits;
}

static void put_lengths(Bits *bits, const Lengths *lengths, int last) {
    Bits out = *bits;
    put(&out, (uint32_t)(last - END_OF_BLOCK) | 1 << 5 | (METAS_TOLD - 4) << 10, 5 + 5 + 4);
    for (int i = 0; i < METAS_TOLD; i++) put(&out, lengths->code.lengths[meta_order[i]], 3);
    for (int i = 0; i < lengths->count; i++) {
        int symbol = lengths->told[i] & 31, length = lengths->code.lengths[symbol];
        put(&out, lengths->code.codes[symbol] | (uint32_t)lengths->told[i] >> 5 << length, length + meta_extra[symbol]);
    }
    *bits = out;
}

/* Writes the smallest: a block with the fixed code, one with a code of its own, or the bytes as they are. */
static void put_block(Bits *bits, const uint8_t *data, size_t size) {
    uint16_t tokens[MOST_BYTES];
    Code code = {0};
    Lengths lengths = {0};
    int count = divide(data, size, tokens, code.counts);
    find_used(&code, LENGTH_SYMBOLS);
    choose_lengths(&code);
    int last = code.symbols[code.used - 1];
    memcpy(code.lengths + last + 1, "\1\1\xFF", 3); /* two distances */
    tell_lengths(&lengths, code.lengths, last + 3);

    uint32_t runs = 0, extra = 0;
    for (int n = 0; n < 29; n++) {
        runs += code.counts[END_OF_BLOCK + 1 + n];
        extra += (uint32_t)code.counts[END_OF_BLOCK + 1 + n] * extra_bits[n];
    }
    uint32_t fixed = cost(&code, fixed_code.lengths) + 5 * runs;
    uint32_t own = cost(&code, code.lengths) + runs + bits_of_lengths(&lengths);
    uint32_t least = 3 + extra + (fixed <= own ? fixed : own);
    if (size + 5 <= (least + 7) >> 3) {
        put(bits, 1, 8);
        put(bits, (uint32_t)size | (uint32_t)~size << 16, 32);
        memcpy(bits->at, data, size);
        bits->at += size;
    } else if (fixed <= own) {
        put(bits, 1 << 1 | 1, 3);
        put_tokens(bits, tokens, count, &fixed_code, 5);
    } else {
        put(bits, 2 << 1 | 1, 3);
        put_lengths(bits, &lengths, last);
        assign_codes(&code);
        put_tokens(bits, tokens, count, &code, 1);
    }
    put(bits, 0, -bits->count & 7); /* the rest of a byte */
}

static uint8_t *put_big_endian(uint8_t *out, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) *out++ = (uint8_t)(value >> shift);
    return out;
}

/* The check sum of RFC 1950: 1 and the bytes added up, and the sums after each byte. A block of 64 at a time, in which
 * the first byte counts 64 times for the sums, the last once. */
static uint32_t adler32(const uint8_t *data, size_t size) {
    uint32_t low = 1, high = 0;
    for (; size >= 64; size -= 64, data += 64) {
        uint32_t sum = 0, sums = 0;
        for (uint32_t i = 0; i < 64; i++) sum += data[i], sums += (64 - i) * data[i];
        high = (high + 64 * low + sums) % 65521;
        low = (low + sum) % 65521;
    }
    while (size--) high += low += *data++;
    return high % 65521 << 16 | low % 65521;
}

/* Writes the stream of 1 to MOST_BYTES bytes and returns where it ends. There must be room for MOST_ADDED more. */
static uint8_t *put_stream(uint8_t *out, const uint8_t *data, size_t size) {
    *out++ = 0x48; /* deflate with a window of 4 kB */
    *out++ = 0x0D; /* what makes the two a multiple of 31 */
    Bits bits = {out, 0, 0};
    put_block(&bits, data, size);
    return put_big_endian(bits.at, adler32(data, size));
}

/* A PNG of rows that are not filtered, behind its beginning. */
static PyObject *png_of(const uint8_t *beginning, size_t begun, const uint8_t *pixels, size_t size, size_t height) {
    static const uint8_t end[12] = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xAE, 0x42, 0x60, 0x82};
    uint8_t rows[MOST_BYTES], out[MOST_BEGINNING + 8 + MOST_BYTES + MOST_ADDED + 4 + sizeof end];
    size_t stride = size / height;
    for (size_t i = 0; i < height; i++) {
        rows[i * (stride + 1)] = 0;
        memcpy(rows + i * (stride + 1) + 1, pixels + i * stride, stride);
    }
    memcpy(out, beginning, begun);
    memcpy(out + begun + 4, "IDAT", 4);
    uint8_t *data = out + begun + 8, *stop = put_stream(data, rows, height * (stride + 1));
    put_big_endian(out + begun, (uint32_t)(stop - data));
    stop = put_big_endian(stop, crc32_of(data - 4, (size_t)(stop - data) + 4));
    memcpy(stop, end, sizeof end);
    return PyBytes_FromStringAndSize((const char *)out, stop + sizeof end - out);
}

static PyObject *small_png(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *beginning;
    Py_ssize_t begun, height;
    Py_buffer pixels;
    if (!PyArg_ParseTuple(args, "y#y*n:small_png", &beginning, &begun, &pixels, &height)) return NULL;
    PyObject *result = NULL;
    if (height <= 0 || pixels.len % height) {
        PyErr_Format(PyExc_ValueError, "%zd bytes are not %zd rows", pixels.len, height);
    } else if (begun > MOST_BEGINNING || pixels.len > MOST_BYTES || height > MOST_BYTES - pixels.len) {
        PyErr_Format(PyExc_ValueError, "%zd bytes in %zd rows, behind %zd bytes, are too many", pixels.len, height,
                     begun);
    } else {
        result = png_of((const uint8_t *)beginning, (size_t)begun, pixels.buf, (size_t)pixels.len, (size_t)height);
    }
    PyBuffer_Release(&pixels);
    return result;
}

PyMethodDef deflate_methods[] = {
    {"small_png", small_png, METH_VARARGS,
     "small_png(beginning, pixels, height): the file of so many rows, none filtered; these are 8190 bytes at most."},
    {NULL, NULL, 0, NULL},
};

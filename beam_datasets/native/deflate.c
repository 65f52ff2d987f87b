/* Small data -> the stream that zlib makes of it at level 6 with a window of 4 kB, memory level 6 and Z_RLE.
 *
 * That is what small images are compressed by (features/png.py). zlib takes 30 us for an image of 28 x 28, nearly all
 * of it for the Huffman code of its bytes; here it takes half, and the stream is the same to the bit, so that images
 * have the same bytes where this module is missing. Which code zlib chooses depends on how its heap breaks ties, so the
 * heap is the same one. The format is RFC 1950 and RFC 1951; what is chosen where these leave a choice is said at each
 * step.
 */
#include "native.h"

#define MOST_TOKENS 4094 /* with one more zlib begins a new block */
#define MOST_BYTES 7000  /* of the data; zlib's window slides when there are some more */
#define MOST_ADDED 16   /* bytes that a stream may have more than its data: 11, where these are stored */
#define MOST_BEGINNING 64
#define LITERALS 256
#define END_OF_BLOCK 256
#define LONGEST_RUN 258
#define SHORTEST_RUN 3
#define LENGTH_SYMBOLS 286 /* bytes, the end of the block, lengths of runs */
#define SYMBOLS 288 /* with two that never occur, but take part in the fixed code */
#define DISTANCE_SYMBOLS 30
#define META_SYMBOLS 19 /* lengths of codes, and repetitions of these */
#define REPEAT 16       /* the length before, 3 to 6 times */
#define FEW_ZEROS 17    /* 3 to 10 */
#define MANY_ZEROS 18   /* 11 to 138 */
#define MOST_NODES (2 * LENGTH_SYMBOLS + 1)

static const uint8_t extra_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                       2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint8_t base_length[29] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  10,  12,  14,  16,  20, 24,
                                        28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 255};
static const uint8_t meta_order[META_SYMBOLS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
static const uint8_t meta_extra[META_SYMBOLS] = {[REPEAT] = 2, [FEW_ZEROS] = 3, [MANY_ZEROS] = 7};

/* A Huffman code of some symbols. */
typedef struct {
    int last;                        /* the last symbol that occurs */
    uint32_t counts[SYMBOLS]; /* how often each occurs */
    uint8_t lengths[SYMBOLS];
    uint16_t codes[SYMBOLS]; /* the bits in the order in which they are written */
} Code;

/* ------------------------------------------------------------------------------------------------ the Huffman code */

/* An entry of the heap: count, height of the tree and node. Equal counts are told apart by the height, equal heights
 * by the order of the entries, so the node takes no part in comparisons. */
static inline uint32_t entry(uint32_t count, uint32_t height, int node) {
    return count << 16 | height << 10 | (uint32_t)node; /* counts are below 2^13, heights below 2^5, nodes below 2^10 */
}
static inline int node_of(uint32_t heap_entry) { return (int)(heap_entry & 0x3FF); }
static inline uint32_t weight(uint32_t heap_entry) { return heap_entry >> 10; }

/* Moves an entry down to where no child is smaller; grandchildren are loaded before it is known which are needed. */
static inline void sift(uint32_t *heap, unsigned size, unsigned k) {
    uint32_t moved = heap[k];
    heap[size + 1] = UINT32_MAX; /* never the smaller child */
    uint32_t left = heap[2 * k], right = heap[2 * k + 1];
    for (unsigned j = 2 * k; j <= size;) {
        uint32_t below[4] = {heap[2 * j], heap[2 * j + 1], heap[2 * j + 2], heap[2 * j + 3]};
        unsigned smaller = weight(right) <= weight(left); /* no branch, which could not be foreseen */
        uint32_t child = smaller ? right : left;
        if (weight(moved) <= weight(child)) break;
        heap[k] = child;
        k = j + smaller;
        left = smaller ? below[2] : below[0];
        right = smaller ? below[3] : below[1];
        j = 2 * k;
    }
    heap[k] = moved;
}

/* Makes codes that would be too long as long as may be, and others longer in their place. */
static void shorten(Code *code, int longest, int too_long, const uint16_t *order, int taken) {
    int of_length[16] = {0};
    for (int n = 0; n <= code->last; n++) of_length[code->lengths[n]]++;
    for (; too_long > 0; too_long -= 2) {
        int depth = longest - 1;
        while (of_length[depth] == 0) depth--;
        of_length[depth]--;
        of_length[depth + 1] += 2;
        of_length[longest]--;
    }
    /* The first symbols to leave the heap get the longest codes. */
    for (int i = 0, depth = longest; i < taken; i++) {
        if (order[i] > code->last) continue;
        while (of_length[depth] == 0) depth--;
        of_length[depth]--;
        code->lengths[order[i]] = (uint8_t)depth;
    }
}

/* Chooses the lengths of a code of `symbols` symbols, at most `longest` bits each. A code has two symbols at least. */
static void choose_lengths(Code *code, int symbols, int longest) {
    uint32_t heap[2 * SYMBOLS + 4] = {0};
    uint16_t parents[MOST_NODES], order[MOST_NODES];
    uint8_t depths[MOST_NODES] = {0};
    unsigned size = 0;
    code->last = -1;
    memset(code->lengths, 0, sizeof code->lengths);
    for (int n = 0; n < symbols; n++) { /* no branches here and below, as they could not be foreseen either */
        heap[size + 1] = entry(code->counts[n], 0, n);
        size += code->counts[n] != 0;
    }
    if (size) code->last = node_of(heap[size]);
    while (size < 2) { /* as if the first symbols that can be occurred once; they take no bits */
        int added = code->last < 2 ? ++code->last : 0;
        heap[++size] = entry(1, 0, added);
    }
    for (unsigned k = size / 2; k >= 1; k--) sift(heap, size, k);

    int taken = 0, node = symbols; /* `order`: all nodes but the root, as the heap gave them away */
    do {
        uint32_t one = heap[1];
        heap[1] = heap[size--];
        sift(heap, size, 1);
        uint32_t two = heap[1];
        order[taken++] = (uint16_t)node_of(one);
        order[taken++] = (uint16_t)node_of(two);
        parents[node_of(one)] = parents[node_of(two)] = (uint16_t)node;
        uint32_t height = weight(one) & 0x3F, other = weight(two) & 0x3F;
        heap[1] = entry((one >> 16) + (two >> 16), (height > other ? height : other) + 1, node++);
        sift(heap, size, 1);
    } while (size >= 2);

    /* From the root down. */
    int too_long = 0;
    depths[node - 1] = 0;
    for (int i = taken - 1; i >= 0; i--) {
        int depth = depths[parents[order[i]]] + 1;
        too_long += depth > longest;
        depths[order[i]] = (uint8_t)(depth > longest ? longest : depth);
    }
    memcpy(code->lengths, depths, (size_t)code->last + 1);
    if (too_long) shorten(code, longest, too_long, order, taken);
}

/* Gives each symbol its code: in the order of the lengths, then of the symbols. */
static void assign_codes(Code *code) {
    unsigned next[17] = {0}, counts[16] = {0};
    for (int n = 0; n <= code->last; n++) counts[code->lengths[n]]++;
    counts[0] = 0;
    for (int length = 1; length <= 15; length++) next[length + 1] = (next[length] + counts[length]) << 1;
    for (int n = 0; n <= code->last; n++) {
        unsigned bits = next[code->lengths[n]]++; /* to be turned round */
        bits = (bits & 0x5555) << 1 | (bits >> 1 & 0x5555);
        bits = (bits & 0x3333) << 2 | (bits >> 2 & 0x3333);
        bits = (bits & 0x0F0F) << 4 | (bits >> 4 & 0x0F0F);
        bits = (bits & 0x00FF) << 8 | bits >> 8;
        code->codes[n] = (uint16_t)(bits >> (16 - code->lengths[n]));
    }
}

/* ------------------------------------------------------------------------------------------------------ the stream */

typedef struct {
    uint8_t *at;
    uint64_t pending; /* bits that are not written yet, the first ones lowest */
    int count;
} Bits;

static inline void put(Bits *bits, uint32_t value, int count) { /* at most 32 of them */
    bits->pending |= (uint64_t)value << bits->count;
    bits->count += count;
    if (bits->count >= 32) {
        for (int i = 0; i < 4; i++) *bits->at++ = (uint8_t)(bits->pending >> (8 * i));
        bits->pending >>= 32;
        bits->count -= 32;
    }
}

static void finish_byte(Bits *bits) {
    for (; bits->count > 0; bits->count -= 8, bits->pending >>= 8) *bits->at++ = (uint8_t)bits->pending;
    bits->count = 0;
    bits->pending = 0;
}

/* Tells the lengths of a code: by themselves, or by how often they are repeated. */
typedef struct {
    uint8_t symbol, more; /* of the code of lengths, and what follows it */
} Told;

static int tell_lengths(const Code *code, Told *told) {
    int count = 0;
    for (int n = 0, same; n <= code->last; n += same) {
        uint8_t length = code->lengths[n];
        for (same = 1; n + same <= code->last && code->lengths[n + same] == length;) same++;
        int left = same;
        if (length) told[count++] = (Told){length, 0}, left--;
        while (left >= 3) {
            int most = length ? 6 : 138, taken = left < most ? left : most;
            if (length) {
                told[count++] = (Told){REPEAT, (uint8_t)(taken - 3)};
            } else if (taken <= 10) {
                told[count++] = (Told){FEW_ZEROS, (uint8_t)(taken - 3)};
            } else {
                told[count++] = (Told){MANY_ZEROS, (uint8_t)(taken - 11)};
            }
            left -= taken;
        }
        while (left-- > 0) told[count++] = (Told){length, 0};
    }
    return count;
}

/* What is the same for all data: the symbols of runs, and the code of RFC 1951 that is fixed. */
static uint8_t symbol_of_run[LONGEST_RUN - SHORTEST_RUN + 1];
static Code fixed_code;

void deflate_init(void) {
    for (int symbol = 0; symbol < 29; symbol++)
        for (int run = base_length[symbol]; run < base_length[symbol] + (1 << extra_bits[symbol]) && run < 256; run++)
            symbol_of_run[run] = (uint8_t)symbol;
    fixed_code.last = 287;
    for (int n = 0; n < 288; n++) fixed_code.lengths[n] = n < 144 ? 8 : n < 256 ? 9 : n < 280 ? 7 : 8;
    assign_codes(&fixed_code);
}

/* Whether three bytes follow that repeat the one before. */
static inline int begins_run(const uint8_t *data, size_t size, size_t i) {
    return i && i + SHORTEST_RUN <= size &&
           !((data[i] ^ data[i - 1]) | (data[i + 1] ^ data[i - 1]) | (data[i + 2] ^ data[i - 1]));
}

/* Divides data into bytes and runs: tokens below 256 are bytes, others 256 + a run's length - SHORTEST_RUN. Each run is
 * as long as it can be, and repeats the byte before it. Returns how many tokens there are; 0 if they are too many. */
static int divide(const uint8_t *data, size_t size, uint16_t *tokens, Code *symbols) {
    int count = 0;
    for (size_t i = 0; i < size;) {
        if (count == MOST_TOKENS) return 0;
        if (begins_run(data, size, i)) {
            size_t run = SHORTEST_RUN, most = size - i < LONGEST_RUN ? size - i : LONGEST_RUN;
            while (run < most && data[i + run] == data[i - 1]) run++;
            tokens[count++] = (uint16_t)(LITERALS + run - SHORTEST_RUN);
            symbols->counts[END_OF_BLOCK + 1 + symbol_of_run[run - SHORTEST_RUN]]++;
            i += run;
        } else {
            tokens[count++] = data[i];
            symbols->counts[data[i++]]++;
        }
    }
    symbols->counts[END_OF_BLOCK] = 1;
    return count;
}

static void put_tokens(Bits *bits, const uint16_t *tokens, int count, const Code *symbols, uint32_t distance,
                       int length) {
    for (int i = 0; i < count; i++) {
        int token = tokens[i];
        if (token < LITERALS) {
            put(bits, symbols->codes[token], symbols->lengths[token]);
            continue;
        }
        int run = token - LITERALS, symbol = symbol_of_run[run];
        put(bits, symbols->codes[END_OF_BLOCK + 1 + symbol], symbols->lengths[END_OF_BLOCK + 1 + symbol]);
        put(bits, (uint32_t)(run - base_length[symbol]), extra_bits[symbol]);
        put(bits, distance, length);
    }
    put(bits, symbols->codes[END_OF_BLOCK], symbols->lengths[END_OF_BLOCK]);
}

/* How many bits the tokens take by a code; the distances of runs and the code itself apart. */
static uint32_t cost(const Code *symbols, const uint8_t *lengths) {
    uint32_t bits = 0;
    for (int n = 0; n <= symbols->last; n++)
        bits += symbols->counts[n] * (uint32_t)(lengths[n] + (n > END_OF_BLOCK ? extra_bits[n - END_OF_BLOCK - 1] : 0));
    return bits;
}

static void put_block(Bits *bits, const uint8_t *data, size_t size, const uint16_t *tokens, int count, Code *symbols) {
    Code distances = {0}, meta = {0};
    Told told[LENGTH_SYMBOLS + DISTANCE_SYMBOLS];
    uint32_t runs = 0;
    for (int n = END_OF_BLOCK + 1; n < LENGTH_SYMBOLS; n++) runs += symbols->counts[n];
    distances.counts[0] = runs; /* all runs begin one byte back */
    choose_lengths(symbols, LENGTH_SYMBOLS, 15);
    choose_lengths(&distances, DISTANCE_SYMBOLS, 15);
    int number = tell_lengths(symbols, told);
    number += tell_lengths(&distances, told + number);
    for (int i = 0; i < number; i++) meta.counts[told[i].symbol]++;
    choose_lengths(&meta, META_SYMBOLS, 7);
    int metas = META_SYMBOLS;
    while (metas > 4 && meta.lengths[meta_order[metas - 1]] == 0) metas--;

    uint32_t own = cost(symbols, symbols->lengths) + runs * distances.lengths[0] + 3 * (uint32_t)metas + 5 + 5 + 4;
    for (int n = 0; n < META_SYMBOLS; n++) own += meta.counts[n] * (uint32_t)(meta.lengths[n] + meta_extra[n]);
    uint32_t fixed = cost(symbols, fixed_code.lengths) + 5 * runs;
    uint32_t own_bytes = (own + 3 + 7) >> 3, fixed_bytes = (fixed + 3 + 7) >> 3;
    uint32_t least = fixed_bytes <= own_bytes ? fixed_bytes : own_bytes;
    if (size + 4 <= least) {
        put(bits, 1, 3);
        finish_byte(bits);
        put(bits, (uint32_t)size | (uint32_t)~size << 16, 32);
        memcpy(bits->at, data, size);
        bits->at += size;
    } else if (fixed_bytes == least) {
        put(bits, 1 << 1 | 1, 3);
        put_tokens(bits, tokens, count, &fixed_code, 0, 5);
    } else {
        put(bits, 2 << 1 | 1, 3);
        put(bits, (uint32_t)(symbols->last - 256), 5);
        put(bits, (uint32_t)distances.last, 5);
        put(bits, (uint32_t)(metas - 4), 4);
        for (int i = 0; i < metas; i++) put(bits, meta.lengths[meta_order[i]], 3);
        assign_codes(symbols);
        assign_codes(&distances);
        assign_codes(&meta);
        for (int i = 0; i < number; i++) {
            put(bits, meta.codes[told[i].symbol], meta.lengths[told[i].symbol]);
            put(bits, told[i].more, meta_extra[told[i].symbol]);
        }
        put_tokens(bits, tokens, count, symbols, distances.codes[0], distances.lengths[0]);
    }
    finish_byte(bits);
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

/* Writes the stream of data and returns where it ends; NULL where they are empty or too long. There must be room for
 * MOST_ADDED bytes more than the data have. */
static uint8_t *put_stream(uint8_t *out, const uint8_t *data, size_t size) {
    uint16_t tokens[MOST_TOKENS];
    Code symbols = {0};
    int count = 0 < size && size <= MOST_BYTES ? divide(data, size, tokens, &symbols) : 0;
    if (count == 0) return NULL;
    *out++ = 0x48; /* deflate with a window of 4 kB */
    *out++ = 0x0D; /* no dictionary, a fast way; and what makes the two a multiple of 31 */
    Bits bits = {out, 0, 0};
    put_block(&bits, data, size, tokens, count, &symbols);
    return put_big_endian(bits.at, adler32(data, size));
}

static PyObject *deflate_runs(PyObject *Py_UNUSED(module), PyObject *object) {
    Py_buffer data;
    if (bytes_get(object, &data) < 0) return NULL;
    uint8_t out[MOST_BYTES + MOST_ADDED];
    const uint8_t *stop = put_stream(out, data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    if (stop == NULL) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)out, stop - out);
}

/* A PNG of rows that are not filtered, behind its beginning. */
static PyObject *png_of(const uint8_t *beginning, size_t begun, const uint8_t *pixels, size_t size, size_t height) {
    static const uint8_t end[12] = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xAE, 0x42, 0x60, 0x82};
    uint8_t rows[MOST_BYTES], out[MOST_BEGINNING + 8 + MOST_BYTES + MOST_ADDED + 4 + sizeof end];
    if (begun > MOST_BEGINNING || size > MOST_BYTES || height > MOST_BYTES - size) Py_RETURN_NONE;
    size_t stride = size / height;
    for (size_t i = 0; i < height; i++) {
        rows[i * (stride + 1)] = 0;
        memcpy(rows + i * (stride + 1) + 1, pixels + i * stride, stride);
    }
    memcpy(out, beginning, begun);
    memcpy(out + begun + 4, "IDAT", 4);
    uint8_t *data = out + begun + 8, *stop = put_stream(data, rows, height * (stride + 1));
    if (stop == NULL) Py_RETURN_NONE;
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
    } else {
        result = png_of((const uint8_t *)beginning, (size_t)begun, pixels.buf, (size_t)pixels.len, (size_t)height);
    }
    PyBuffer_Release(&pixels);
    return result;
}

PyMethodDef deflate_methods[] = {
    {"deflate_runs", deflate_runs, METH_O,
     "deflate_runs(data): what zlib makes of data, looking for runs alone; None where they are too long, or empty."},
    {"small_png", small_png, METH_VARARGS,
     "small_png(beginning, pixels, height): the file of so many rows, none filtered; None where they are too large."},
    {NULL, NULL, 0, NULL},
};

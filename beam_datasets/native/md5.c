/* MD5 (RFC 1321) of many short texts that begin alike: the sort keys of a split. It mixes; it guards nothing. */
#include "native.h"
#include <stdlib.h>

static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

#define ROTATED(x, n) ((x) << (n) | (x) >> (32 - (n)))
#define STEP(mixed, a, b, word, i, turn) a = (b) + ROTATED((a) + (mixed) + words[(word) & 15] + sines[i], turn)
#define FOUR(MIX, i, word, step, s1, s2, s3, s4)                   \
    STEP(MIX(b, c, d), a, b, (word), (i), s1);                     \
    STEP(MIX(a, b, c), d, a, (word) + (step), (i) + 1, s2);        \
    STEP(MIX(d, a, b), c, d, (word) + 2 * (step), (i) + 2, s3);    \
    STEP(MIX(c, d, a), b, c, (word) + 3 * (step), (i) + 3, s4)
#define F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define G(x, y, z) ((y) ^ ((z) & ((x) ^ (y))))
#define H(x, y, z) ((x) ^ (y) ^ (z))
#define I(x, y, z) ((y) ^ ((x) | ~(z)))

static void mix_block(uint32_t state[4], const uint8_t *block) {
    uint32_t words[16], a = state[0], b = state[1], c = state[2], d = state[3];
    memcpy(words, block, 64);
    for (int i = 0; i < 16; i += 4) { FOUR(F, i, i, 1, 7, 12, 17, 22); }
    for (int i = 16; i < 32; i += 4) { FOUR(G, i, 5 * i + 1, 5, 5, 9, 14, 20); }
    for (int i = 32; i < 48; i += 4) { FOUR(H, i, 3 * i + 5, 3, 4, 11, 16, 23); }
    for (int i = 48; i < 64; i += 4) { FOUR(I, i, 7 * i, 7, 6, 10, 15, 21); }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

/* Of n bytes that have room for 72 more behind them, which are overwritten. */
static void digest(uint8_t out[16], uint8_t *text, size_t n) {
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint64_t bits = 8 * (uint64_t)n;
    size_t size = (n + 8) / 64 * 64 + 64;
    text[n] = 0x80;
    memset(text + n + 1, 0, size - 8 - (n + 1));
    memcpy(text + size - 8, &bits, 8);
    for (size_t place = 0; place < size; place += 64) mix_block(state, text + place);
    memcpy(out, state, 16);
}

/* The salt and, behind it, the text of the key that is hashed. */
typedef struct {
    uint8_t *bytes;
    size_t salt, n, room;
} Text;

static int put_text(Text *text, const char *key, size_t n) {
    if (text->salt + n + 72 > text->room) {
        size_t room = 2 * (text->salt + n + 72);
        uint8_t *bytes = realloc(text->bytes, room);
        if (bytes == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        text->bytes = bytes;
        text->room = room;
    }
    memcpy(text->bytes + text->salt, key, n);
    text->n = text->salt + n;
    return 1;
}

static int put_int(Text *text, PyObject *key) {
    char digits[24], *first = digits + sizeof digits;
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(key, &overflow);
    if (overflow) return 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do *--first = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) *--first = '-';
    return put_text(text, first, (size_t)(digits + sizeof digits - first));
}

static int put_str(Text *text, PyObject *key) {
    Py_ssize_t n;
    const char *utf8 = PyUnicode_AsUTF8AndSize(key, &n);
    if (utf8 == NULL) {
        PyErr_Clear(); /* what cannot be UTF-8 is told in Python */
        return 0;
    }
    if (put_text(text, utf8, (size_t)n) < 0) return -1;
    for (uint8_t *c = text->bytes + text->salt; c < text->bytes + text->n; c++)
        if (*c == '\\') *c = '/';
    return 1;
}

/* 1; 0 for a key that is not told how to hash here; -1 with an exception. */
static int put_key(Text *text, PyObject *key) {
    if (PyLong_CheckExact(key)) return put_int(text, key);
    if (PyUnicode_CheckExact(key)) return put_str(text, key);
    if (PyBytes_CheckExact(key)) return put_text(text, PyBytes_AsString(key), (size_t)PyBytes_Size(key));
    return 0;
}

static PyObject *hash_all(Text *text, PyObject *keys) {
    Py_ssize_t n = PyTuple_Size(keys);
    PyObject *hashes = n > PY_SSIZE_T_MAX / 16 ? PyErr_NoMemory() : PyBytes_FromStringAndSize(NULL, 16 * n);
    if (hashes == NULL) return NULL;
    uint8_t *out = (uint8_t *)PyBytes_AsString(hashes);
    for (Py_ssize_t i = 0; i < n; i++) {
        int put = put_key(text, PyTuple_GetItem(keys, i));
        if (put <= 0) {
            Py_DECREF(hashes);
            if (put < 0) return NULL;
            Py_RETURN_NONE;
        }
        digest(out + 16 * i, text->bytes, text->n);
    }
    return hashes;
}

PyDoc_STRVAR(hash_keys_doc, "hash_keys(salt, keys)\n--\n\n"
                            "Returns the MD5 of the salt and each key, 16 bytes each; None where a key is no int of\n"
                            "64 bits, bytes, or str that UTF-8 can express.");

static PyObject *hash_keys(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *list, *hashes = NULL;
    Py_buffer salt;
    if (!PyArg_ParseTuple(arguments, "y*O:hash_keys", &salt, &list)) return NULL;
    PyObject *keys = PySequence_Tuple(list);
    Text text = {NULL, 0, 0, 0};
    if (keys != NULL && put_text(&text, salt.buf, (size_t)salt.len) > 0) {
        text.salt = (size_t)salt.len;
        hashes = hash_all(&text, keys);
    }
    free(text.bytes);
    Py_XDECREF(keys);
    PyBuffer_Release(&salt);
    return hashes;
}

PyMethodDef md5_methods[] = {{"hash_keys", hash_keys, METH_VARARGS, hash_keys_doc}, {NULL, NULL, 0, NULL}};

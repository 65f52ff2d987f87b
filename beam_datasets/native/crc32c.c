/* CRC-32C (Castagnoli; the reflected polynomial 0x82F63B78), as iSCSI (RFC 3720, section 12.1) and TFRecord use it.
 *
 * With the processor's instruction where it has one, else eight bytes at a time by tables ("slicing by 8"). On x86 the
 * instruction takes three cycles but one can begin each cycle, so from THREE_FROM bytes on three stretches go side by
 * side. They are put together by a multiplication: if a stretch of CRC A is followed by n bits, A counts as A * x^n
 * modulo the polynomial (V. Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction").
 */
#include "native.h"

#define POLYNOMIAL 0x82F63B78u

typedef uint32_t (*Extend)(uint32_t crc, const uint8_t *data, size_t n); /* of the register, not inverted */

/* ---------------------------------------------------------------------------------------------------------- tables */

static uint32_t table[8][256];

static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
        table[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++) table[k][i] = table[0][table[k - 1][i] & 0xFF] ^ table[k - 1][i] >> 8;
}

static uint32_t extend_by_table(uint32_t crc, const uint8_t *data, size_t n) {
    for (; n >= 8; n -= 8, data += 8) {
        uint64_t word = u64_at(data) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= table[7 - k][word >> 8 * k & 0xFF];
    }
    while (n--) crc = table[0][(crc ^ *data++) & 0xFF] ^ crc >> 8;
    return crc;
}

/* ------------------------------------------------------------------------------------------------------------- x86 */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define TARGET __attribute__((target("sse4.2,pclmul")))
#define MAX_WORDS 128 /* of eight bytes, in each of the three stretches */
#define THREE_FROM 144 /* bytes; measured */

static uint64_t shifts[MAX_WORDS][2]; /* of words - 1: x^(128 words - 33), x^(64 words - 33) */

static void make_shifts(void) {
    uint32_t power = 0x80000000u; /* x^0: bit 31 - i stands for x^i */
    for (int i = 0; i < 33; i++) power = power >> 31 ? (power ^ POLYNOMIAL) << 1 | 1 : power << 1;
    for (int words = 0; words <= 2 * MAX_WORDS; words++) {
        if (words >= 1 && words <= MAX_WORDS) shifts[words - 1][1] = power;
        if (words >= 2 && words % 2 == 0) shifts[words / 2 - 1][0] = power;
        for (int i = 0; i < 64; i++) power = power & 1 ? power >> 1 ^ POLYNOMIAL : power >> 1;
    }
}

/* Of 24 * words bytes, words in [1, MAX_WORDS]. */
TARGET static inline uint32_t extend_three(uint32_t crc, const uint8_t *data, size_t words) {
    uint64_t a = crc, b = 0, c = 0;
    const uint8_t *second = data + 8 * words, *third = second + 8 * words;
    for (size_t i = 0; i + 1 < words; i++, data += 8, second += 8, third += 8) {
        a = _mm_crc32_u64(a, u64_at(data));
        b = _mm_crc32_u64(b, u64_at(second));
        c = _mm_crc32_u64(c, u64_at(third));
    }
    a = _mm_crc32_u64(a, u64_at(data));
    b = _mm_crc32_u64(b, u64_at(second));
    /* A product of two registers stands for A * B * x; the last step of the third stretch multiplies it by x^32. */
    __m128i by = _mm_loadu_si128((const __m128i *)shifts[words - 1]);
    __m128i both = _mm_xor_si128(_mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), by, 0x00),
                                 _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)b), by, 0x10));
    return (uint32_t)_mm_crc32_u64(c, u64_at(third) ^ (uint64_t)_mm_cvtsi128_si64(both));
}

TARGET static uint32_t extend_by_instruction(uint32_t crc, const uint8_t *data, size_t n) {
    while (n >= THREE_FROM) {
        size_t words = n / 24 < MAX_WORDS ? n / 24 : MAX_WORDS;
        crc = extend_three(crc, data, words);
        data += 24 * words;
        n -= 24 * words;
    }
    uint64_t wide = crc;
    for (; n >= 8; n -= 8, data += 8) wide = _mm_crc32_u64(wide, u64_at(data));
    crc = (uint32_t)wide;
    while (n--) crc = _mm_crc32_u8(crc, *data++);
    return crc;
}

static Extend choose(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul")) return extend_by_table;
    make_shifts();
    return extend_by_instruction;
}

/* ------------------------------------------------------------------------------------------------------------- ARM */

#elif defined(__aarch64__) && defined(__GNUC__) && (defined(__ARM_FEATURE_CRC32) || defined(__linux__))

#if defined(__ARM_FEATURE_CRC32) /* as on every Mac: no processor of this target lacks it */
#define TARGET
#define has_instruction() 1
#else
#include <sys/auxv.h>
#define TARGET __attribute__((target("arch=armv8-a+crc")))
#define has_instruction() ((getauxval(AT_HWCAP) & (1ul << 7)) != 0) /* HWCAP_CRC32 */
#endif

/* By name and not from arm_acle.h, which declares them only where the whole file may use them. */
TARGET static inline uint32_t step64(uint32_t crc, uint64_t word) {
    __asm__("crc32cx %w0, %w1, %x2" : "=r"(crc) : "r"(crc), "r"(word));
    return crc;
}

TARGET static inline uint32_t step8(uint32_t crc, uint32_t byte) {
    __asm__("crc32cb %w0, %w1, %w2" : "=r"(crc) : "r"(crc), "r"(byte));
    return crc;
}

TARGET static uint32_t extend_by_instruction(uint32_t crc, const uint8_t *data, size_t n) {
    for (; n >= 8; n -= 8, data += 8) crc = step64(crc, u64_at(data));
    while (n--) crc = step8(crc, *data++);
    return crc;
}

static Extend choose(void) { return has_instruction() ? extend_by_instruction : extend_by_table; }

#else

static Extend choose(void) { return extend_by_table; }

#endif

static Extend extend = extend_by_table;

void crc32c_init(void) {
    make_table();
    extend = choose();
}

uint32_t crc32c_extend(uint32_t crc, const uint8_t *data, size_t n) { return ~extend(~crc, data, n); }

uint32_t crc32c_by_table(uint32_t crc, const uint8_t *data, size_t n) { return ~extend_by_table(~crc, data, n); }

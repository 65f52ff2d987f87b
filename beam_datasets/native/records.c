/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78): with the processor's instruction where it has one, else by
 * tables. */
#include "native.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_SSE42 1
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#define HAVE_ARM_CRC 1
#include <arm_acle.h>
#endif

static uint32_t table[8][256];

static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        table[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++) table[k][i] = table[0][table[k - 1][i] & 0xFF] ^ table[k - 1][i] >> 8;
}

uint32_t crc32c_extend(uint32_t crc, const uint8_t *data, size_t n) {
    /* A placeholder of the scaffold: a byte at a time. */
    if (table[0][1] == 0) make_table();
    crc = ~crc;
    while (n--) crc = table[0][(crc ^ *data++) & 0xFF] ^ crc >> 8;
    return ~crc;
}

PyMethodDef records_methods[] = {{NULL, NULL, 0, NULL}};

/* What the files of the native module share. */
#ifndef BEAM_DATASETS_NATIVE_H
#define BEAM_DATASETS_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

extern PyMethodDef records_methods[]; /* records.c: TFRecord framing, CRC-32C, gathers */
extern PyMethodDef decode_methods[];  /* decode.c: tf.train.Example -> columns */
extern PyMethodDef encode_methods[];  /* encode.c: values -> tf.train.Example, blocks */

/* The CRC-32C of n bytes, going on from the CRC of what came before (0 at the beginning). Needs no GIL. */
uint32_t crc32c_extend(uint32_t crc, const uint8_t *data, size_t n);

/* The CRC as it stands in a TFRecord. */
static inline uint32_t crc32c_mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

#endif

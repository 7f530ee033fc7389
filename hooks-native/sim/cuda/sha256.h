/* sha256.h: the hash by which compiled kernels are filed (FIPS 180-4). */
#ifndef SIM_CUDA_SHA256_H
#define SIM_CUDA_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 { uint32_t state[8]; uint64_t length; unsigned char block[64]; };

void sha256_start(struct sha256 *sha);
void sha256_add(struct sha256 *sha, const void *data, size_t size);
void sha256_hex(struct sha256 *sha, char out[65]);      /* ends the hash */

#endif

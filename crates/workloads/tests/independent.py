"""Computes the checksums of golden.rs from the documented definitions, with a ChaCha8 of its own.

Run it with python3; it prints the constants that the test holds."""
import math
import struct

M32, M64 = 0xFFFFFFFF, (1 << 64) - 1
CHUNK = 1 << 14


def rotate(x, n):
    return ((x << n) | (x >> (32 - n))) & M32


def quarter(w, a, b, c, d):
    w[a] = (w[a] + w[b]) & M32; w[d] = rotate(w[d] ^ w[a], 16)
    w[c] = (w[c] + w[d]) & M32; w[b] = rotate(w[b] ^ w[c], 12)
    w[a] = (w[a] + w[b]) & M32; w[d] = rotate(w[d] ^ w[a], 8)
    w[c] = (w[c] + w[d]) & M32; w[b] = rotate(w[b] ^ w[c], 7)


def chacha8(key, stream):
    block = 0
    while True:
        start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", key),
                 block & M32, block >> 32, stream & M32, stream >> 32]
        w = start[:]
        for _ in range(4):
            for i in range(4):
                quarter(w, i, 4 + i, 8 + i, 12 + i)
            for i in range(4):
                quarter(w, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
        yield from ((a + b) & M32 for a, b in zip(w, start))
        block += 1


def words(seed, purpose, stream=0):
    halves = chacha8(struct.pack("<Q", seed) + purpose.encode()[:24].ljust(24, b"\0"), stream)
    while True:
        low = next(halves)
        yield low | next(halves) << 32


def generate(seed, purpose, n, make):
    out = []
    for first in range(0, n, CHUNK):
        generator = words(seed, purpose, first // CHUNK)
        out += [make(generator) for _ in range(min(CHUNK, n - first))]
    return out


def below(word, n):
    return word * n >> 64


def unit(word):
    return (word >> 11) / 2**53


def mix(x, bits):
    if bits == 32:
        shifts, factors = (16, 13, 16), (0x85EBCA6B, 0xC2B2AE35)
    else:
        shifts, factors = (30, 27, 31), (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
    for shift, factor in zip(shifts, factors):
        x = (x ^ x >> shift) * factor & ((1 << bits) - 1)
    return x ^ x >> shifts[2]


def unique_keys(seed, bits, counters):
    generator = words(seed, "unique keys")
    before, between, mask = next(generator), next(generator), (1 << bits) - 1
    return [mix((mix((i ^ before) & mask, bits) + between) & mask, bits) for i in counters]


def permutation(n, seed, purpose):
    generator = words(seed, purpose)
    bits = (max(n, 2) - 1).bit_length()
    rounds = [(next(generator) | 1, next(generator)) for _ in range(4)]

    def scramble(x):
        for factor, term in rounds:
            x = (x * factor + term) & ((1 << bits) - 1)
            x ^= x >> (bits + 1) // 2
        return x

    def at(i):
        x = scramble(i)
        while x >= n:
            x = scramble(x)
        return x

    return at


def dense_unique(n, block, seed):
    out = []
    for index, base in enumerate(range(0, n, block)):
        width = min(n, base + block) - base
        order, choice = (permutation(width, seed, f"{what} {index}") for what in ("order", "choice"))
        out += [base + 1 + choice(order(i)) for i in range(width)]
    return out


def zipf(items, theta):
    zeta = math.fsum(i**-theta for i in range(1, items + 1))
    second = 1 + 0.5**theta
    eta = (1 - (2 / items) ** (1 - theta)) / (1 - second / zeta)

    def rank(generator):
        u = unit(next(generator))
        if u * zeta < second:
            return int(u * zeta >= 1)
        return min(items - 1, int(items * (eta * u - eta + 1) ** (1 / (1 - theta))))

    return rank


def checksum(numbers):
    total = 0xCBF29CE484222325
    for number in numbers:
        total = (total ^ number) * 0x100000001B3 & M64
    return hex(total)


def ycsb_keys(records, operations, seed):
    place = permutation(records, seed, "scrambled zipf")
    ranks = generate(seed, "ycsb records", operations, zipf(records, 0.99))
    key_of = {rank: unique_keys(seed, 32, [place(rank)])[0] for rank in set(ranks)}
    return [key_of[rank] for rank in ranks]


READ, UPDATE = 0, 4
print("unique u32", checksum(unique_keys(1, 32, range(100_000))), unique_keys(1, 32, range(2)))
print("unique u64", checksum(unique_keys(1, 64, range(1 << 63, (1 << 63) + 100_000))))
print("DU        ", checksum(dense_unique(50_000, 16_384, 1)))
ops = generate(1, "ycsb operations", 50_000, lambda g: READ if unit(next(g)) < 0.5 else UPDATE)
print("ycsb ops  ", checksum(ops))
print("ycsb keys ", checksum(ycsb_keys(10_000, 50_000, 1)))
print("genome    ", checksum(generate(1, "genome", 50_000, lambda g: b"ACGT"[below(next(g), 4)])))

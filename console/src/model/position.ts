/**
 * Where keys lie on a keyspace's circle. The same arithmetic as the crate `keyspace`:
 * hashed: CRC16 of the hash tag modulo 16 384, as Redis Cluster has it; linear-hash: SipHash-1-3
 * with a key of zeros, bit-reversed; ordered: the key itself.
 */

import type { Keyspace, Placement, ShardStatus } from "../api/types";
import { compareBytes, fromHex, toHex } from "./bytes";

export const SLOTS = 16_384;
const MASK = (1n << 64n) - 1n;

/** CRC16 (XMODEM). */
export function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++)
      crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}

/** The part of a key that counts: between the first `{` and the `}` behind it, if that is not empty. */
export function hashTag(key: Uint8Array): Uint8Array {
  const open = key.indexOf(0x7b);
  if (open < 0) return key;
  const close = key.indexOf(0x7d, open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}

export function slotOf(key: Uint8Array): number {
  return crc16(hashTag(key)) % SLOTS;
}

const rotate = (x: bigint, by: bigint) => ((x << by) | (x >> (64n - by))) & MASK;

/** SipHash-1-3 with a key of zeros. */
export function hash64(bytes: Uint8Array): bigint {
  let [v0, v1, v2, v3] = [0x736f6d6570736575n, 0x646f72616e646f6dn, 0x6c7967656e657261n, 0x7465646279746573n];
  const round = () => {
    v0 = (v0 + v1) & MASK;
    v1 = rotate(v1, 13n) ^ v0;
    v0 = rotate(v0, 32n);
    v2 = (v2 + v3) & MASK;
    v3 = rotate(v3, 16n) ^ v2;
    v0 = (v0 + v3) & MASK;
    v3 = rotate(v3, 21n) ^ v0;
    v2 = (v2 + v1) & MASK;
    v1 = rotate(v1, 17n) ^ v2;
    v2 = rotate(v2, 32n);
  };
  const blocks = Math.floor(bytes.length / 8);
  for (let block = 0; block <= blocks; block++) {
    let word = block === blocks ? BigInt(bytes.length & 0xff) << 56n : 0n;
    const end = Math.min(8, bytes.length - 8 * block);
    for (let i = 0; i < end; i++) word |= BigInt(bytes[8 * block + i] ?? 0) << BigInt(8 * i);
    v3 ^= word;
    round();
    v0 ^= word;
  }
  v2 ^= 0xffn;
  for (let i = 0; i < 3; i++) round();
  return v0 ^ v1 ^ v2 ^ v3;
}

export function reverseBits(x: bigint): bigint {
  let turned = 0n;
  for (let i = 0; i < 64; i++) turned = (turned << 1n) | ((x >> BigInt(i)) & 1n);
  return turned;
}

/** A key's position without the keyspace's id, in hexadecimal, as `arc` of `/v1/shards` has it. */
export function positionOf(placement: Placement, key: Uint8Array): string {
  switch (placement) {
    case "hashed":
      return slotOf(key).toString(16).padStart(4, "0");
    case "linear-hash":
      return reverseBits(hash64(key)).toString(16).padStart(16, "0") + toHex(key);
    case "ordered":
      return toHex(key);
  }
}

/** Whether a shard owns a key. */
export function owns(shard: ShardStatus, placement: Placement, key: Uint8Array): boolean {
  if (placement === "hashed") {
    const slot = slotOf(key);
    return shard.slots !== null && shard.slots[0] <= slot && slot <= shard.slots[1];
  }
  if (shard.arc === null) return false;
  const [start, end] = shard.arc;
  const position = fromHex(positionOf(placement, key)) ?? new Uint8Array();
  const isBehindStart = compareBytes(position, fromHex(start) ?? new Uint8Array()) >= 0;
  return isBehindStart && (end === "" || compareBytes(position, fromHex(end) ?? new Uint8Array()) < 0);
}

/** The shard of a keyspace that owns a key. */
export function ownerOf(
  shards: readonly ShardStatus[],
  keyspace: Keyspace,
  key: Uint8Array,
): ShardStatus | null {
  return (
    shards.find((shard) => shard.keyspace === keyspace.name && owns(shard, keyspace.placement, key)) ?? null
  );
}

//! Slots: the 16 384 pieces of a hashed keyspace, exactly as in Redis Cluster.

/// How many slots a hashed keyspace has.
pub const SLOTS: u16 = 16_384;

/// A slot number below [`SLOTS`].
pub type Slot = u16;

/// Tables for eight bytes at a time: `CRC16[n][b]` is the CRC of byte `b` and `n` zeros behind it.
static CRC16: [[u16; 256]; 8] = {
    let mut tables = [[0u16; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut n = 1;
    while n < 8 {
        let mut i = 0;
        while i < 256 {
            let crc = tables[n - 1][i];
            tables[n][i] = (crc << 8) ^ tables[0][(crc >> 8) as usize];
            i += 1;
        }
        n += 1;
    }
    tables
};

/// CRC16 as XMODEM computes it: polynomial 0x1021, begun with 0.
#[inline]
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0u16;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for c in chunks {
        let [high, low] = crc.to_be_bytes();
        crc = CRC16[7][(c[0] ^ high) as usize]
            ^ CRC16[6][(c[1] ^ low) as usize]
            ^ CRC16[5][c[2] as usize]
            ^ CRC16[4][c[3] as usize]
            ^ CRC16[3][c[4] as usize]
            ^ CRC16[2][c[5] as usize]
            ^ CRC16[1][c[6] as usize]
            ^ CRC16[0][c[7] as usize];
    }
    rest.iter().fold(crc, |crc, b| (crc << 8) ^ CRC16[0][((crc >> 8) as u8 ^ b) as usize])
}

/// Whether the key holds a `{`; eight bytes at a time, for most keys hold no brace.
#[inline]
fn has_brace(key: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let (chunks, rest) = key.as_chunks::<8>();
    let mut words = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk) ^ (ONES * 0x7b));
    // Whether some byte of a word is zero.
    words.any(|word| word.wrapping_sub(ONES) & !word & (ONES << 7) != 0) || rest.contains(&b'{')
}

/// The part of a key that decides its slot: the text between the first `{` and the next `}` if that
/// is not empty, else the full key.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    if let Some(open) = key.iter().position(|b| *b == b'{')
        && let Some(len) = key[open + 1..].iter().position(|b| *b == b'}')
        && len > 0
    {
        return &key[open + 1..open + 1 + len];
    }
    key
}

/// The slot of a key: CRC16 (XMODEM) of its hash tag, modulo 16 384.
pub fn slot_of(key: &[u8]) -> Slot {
    // Two calls, so that each is the plainest it can be.
    let crc = if has_brace(key) { crc16(hash_tag(key)) } else { crc16(key) };
    crc & (SLOTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        for at in 0..20 {
            let mut key = [b'k'; 20];
            key[at] = b'{';
            assert!(has_brace(&key), "a brace at {at}");
        }
    }

    #[test]
    fn eight_bytes_at_a_time_are_the_same_as_one() {
        let bytes: Vec<u8> = (0..200u32).map(|i| (i * 31 + 7) as u8).collect();
        for len in 0..bytes.len() {
            let slow = bytes[..len]
                .iter()
                .fold(0u16, |crc, b| (crc << 8) ^ CRC16[0][((crc >> 8) as u8 ^ b) as usize]);
            assert_eq!(crc16(&bytes[..len]), slow, "{len} bytes");
            assert_eq!(has_brace(&bytes[..len]), bytes[..len].contains(&b'{'));
        }
    }
}

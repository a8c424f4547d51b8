//! What is the longest common subsequence of two values, and where does it lie?
//!
//! The table has a row for each byte of `a` and a column for each byte of `b`; a cell holds the
//! length of the best common subsequence up to there. Going back from the last cell, Redis takes
//! a match where bytes are equal, else goes to the row above if that is *larger* than the column to
//! the left, else to the left. Its answers depend on exactly this.
//!
//! One bit per cell tells enough: whether the cell is larger than its left neighbour. For unequal
//! bytes the cell is the larger of both neighbours, so it exceeds the left one exactly if the upper
//! one does. And a row of these bits follows from the one above for 64 columns at a time by one
//! addition (Crochemore, Iliopoulos, Pinzon and Reid, 2001; Hyyrö, 2004):
//!
//! ```text
//!   v: bit j is 0 where row i grows at column j; row 0: all ones
//!   v' = (v + (v & m)) | (v & !m)         m: bit j is 1 where b[j] is the byte of row i
//! ```
//!
//! The columns are taken in blocks of 64, all rows of a block at once; the carry of each row's
//! addition is kept for the next block. So a cell costs a fraction of a nanosecond and a bit of
//! memory (up to 8 where `b` is shorter than a byte of bits).

/// The most cells, (|a| + 1) · (|b| + 1), beyond which LCS is refused: Redis's own bound, 4 bytes
/// per cell within its `proto-max-bulk-len` of 512 MB.
pub(super) const CELLS_MAX: u64 = (512 << 20) / 4;

const BLOCK: usize = 64;

/// A run of bytes that both values have: `a[a..a+len] == b[b..b+len]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) len: usize,
}

/// Whether the table would be too large.
pub(super) fn is_too_large(a: &[u8], b: &[u8]) -> bool {
    (a.len() as u64 + 1).saturating_mul(b.len() as u64 + 1) > CELLS_MAX
}

/// The length of the longest common subsequence.
pub(super) fn length(a: &[u8], b: &[u8]) -> usize {
    let mut length = 0;
    let mut carries = vec![false; a.len()];
    for block in b.chunks(BLOCK) {
        let last = rows_of_block(a, block, &mut carries, |_| {});
        // Columns beyond the block's end have no matches, so they never grow.
        length += last.count_zeros() as usize;
    }
    length
}

/// The matches of the longest common subsequence, from the last to the first.
pub(super) fn matches(a: &[u8], b: &[u8]) -> Vec<Match> {
    let growth = Growth::of(a, b);
    let mut found: Vec<Match> = Vec::new();
    let (mut i, mut j) = (a.len(), b.len());
    let mut joins = false;
    while i > 0 && j > 0 {
        let equal = a[i - 1] == b[j - 1];
        if equal {
            (i, j) = (i - 1, j - 1);
            match found.last_mut() {
                Some(last) if joins => *last = Match { a: i, b: j, len: last.len + 1 },
                _ => found.push(Match { a: i, b: j, len: 1 }),
            }
        } else if growth.at(i - 1, j - 1) {
            i -= 1;
        } else {
            j -= 1;
        }
        joins = equal;
    }
    found
}

/// For each cell whether it is larger than its left neighbour.
struct Growth {
    /// The rows of the first block of columns, one after the other, then those of the next. A set
    /// bit means no growth.
    bits: Vec<u8>,
    rows: usize,
    columns: usize,
}

impl Growth {
    fn of(a: &[u8], b: &[u8]) -> Self {
        let mut bits = Vec::with_capacity(a.len() * b.len().div_ceil(8));
        let mut carries = vec![false; a.len()];
        for block in b.chunks(BLOCK) {
            let bytes = block.len().div_ceil(8);
            rows_of_block(a, block, &mut carries, |row| {
                bits.extend_from_slice(&row.to_le_bytes()[..bytes]);
            });
        }
        Self { bits, rows: a.len(), columns: b.len() }
    }

    fn at(&self, row: usize, column: usize) -> bool {
        let (block, column) = (column / BLOCK, column % BLOCK);
        let width = (self.columns - block * BLOCK).min(BLOCK).div_ceil(8);
        // All blocks but the last have 8 bytes in a row.
        let byte = block * 8 * self.rows + row * width + column / 8;
        self.bits[byte] >> (column % 8) & 1 == 0
    }
}

/// Computes all rows of up to 64 columns, gives each to `take`, and answers the last.
fn rows_of_block(a: &[u8], block: &[u8], carries: &mut [bool], mut take: impl FnMut(u64)) -> u64 {
    let mut places = [0u64; 256];
    for (column, byte) in block.iter().enumerate() {
        places[usize::from(*byte)] |= 1 << column;
    }
    let mut row = u64::MAX;
    for (byte, carry) in a.iter().zip(carries) {
        let equal = places[usize::from(*byte)];
        let (sum, first) = row.overflowing_add(row & equal);
        let (sum, second) = sum.overflowing_add((*carry).into());
        *carry = first | second;
        row = sum | (row & !equal);
        take(row);
    }
    row
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The table itself, and the way back through it.
    fn model(a: &[u8], b: &[u8]) -> (usize, Vec<(usize, usize)>) {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                let larger = table[i][j + 1].max(table[i + 1][j]);
                table[i + 1][j + 1] = if x == y { table[i][j] + 1 } else { larger };
            }
        }
        let (mut i, mut j) = (a.len(), b.len());
        let mut pairs = Vec::new();
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                pairs.push((i, j));
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        (table[a.len()][b.len()], pairs)
    }

    proptest! {
        #[test]
        fn lcs_bits_equal_full_table(
            a in prop::collection::vec(0..4u8, 0..150),
            b in prop::collection::vec(0..4u8, 0..200),
        ) {
            let (len, pairs) = model(&a, &b);
            prop_assert_eq!(length(&a, &b), len);
            let found = matches(&a, &b);
            let each = |m: &Match| (0..m.len).rev().map(|k| (m.a + k, m.b + k)).collect::<Vec<_>>();
            prop_assert_eq!(found.iter().flat_map(each).collect::<Vec<_>>(), pairs);
            let end = |m: &Match| (m.a + m.len, m.b + m.len);
            prop_assert!(found.windows(2).all(|w| end(&w[1]) != (w[0].a, w[0].b)));
        }
    }

    #[test]
    fn lcs_limit_counts_cells() {
        let long = vec![0; 11_585];
        assert!(!is_too_large(&long[1..], &long[1..]));
        assert!(is_too_large(&long, &long));
        assert!(!is_too_large(&long, &[]));
    }
}

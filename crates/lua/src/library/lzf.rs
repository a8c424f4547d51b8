//! LZF, by which Redis compresses long strings: only the way back.

/// The bytes of a packed text, if it is whole and as long as it says.
pub(super) fn unpack(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    // Three bytes become at most 264.
    if len > packed.len().saturating_mul(100) {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    let mut rest = packed;
    while let Some((&control, after)) = rest.split_first() {
        rest = after;
        let high = usize::from(control & 31) << 8;
        let mut count = usize::from(control >> 5);
        if count == 0 {
            let (literal, after) = rest.split_at_checked(usize::from(control) + 1)?;
            out.extend_from_slice(literal);
            rest = after;
            continue;
        }
        if count == 7 {
            let (&more, after) = rest.split_first()?;
            count += usize::from(more);
            rest = after;
        }
        let (&low, after) = rest.split_first()?;
        rest = after;
        let start = out.len().checked_sub(high + usize::from(low) + 1)?;
        // The copy may reach into what it writes.
        for at in start..start + count + 2 {
            out.push(out[at]);
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

//! Numbers as people read them in log lines and in the command line's output.
//!
//! Two other forms have readers of their own, and stay where these are: `INFO` writes sizes as
//! Redis does (`1.50M`), and settings show exact sizes that they also accept (`64KiB`).

/// A number of bytes, rounded: `5.0 MiB`.
pub fn rounded_size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut number = bytes as f64;
    let mut unit = "bytes";
    for larger in units {
        if number < 1024.0 {
            break;
        }
        (number, unit) = (number / 1024.0, larger);
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{number:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_has_one_decimal_in_its_largest_unit() {
        assert_eq!(rounded_size(1000), "1000 bytes");
        assert_eq!(rounded_size(1536), "1.5 KiB");
        assert_eq!(rounded_size(5 << 20), "5.0 MiB");
        assert_eq!(rounded_size(u64::MAX), "16777216.0 TiB");
    }
}

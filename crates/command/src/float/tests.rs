//! Sums as Redis 7.0.15 on x86-64 prints them, and what must hold for all numbers.

use proptest::prelude::*;

use super::*;

fn text(number: &str) -> Option<String> {
    parse(number.as_bytes()).map(|float| String::from_utf8(float.to_text()).unwrap())
}

#[test]
fn one_tenth_matches_documented_mantissa() {
    let size = Size::Finite { mantissa: 0xcccc_cccc_cccc_cccd, exponent: -67 };
    assert_eq!(parse(b"0.1"), Some(Float { negative: false, size }));
}

#[test]
fn the_ends_of_the_range() {
    let largest = "1.189731495357231765e+4932";
    let max = Size::Finite { mantissa: u64::MAX, exponent: EXPONENT_MAX };
    assert_eq!(parse(largest.as_bytes()), Some(Float { negative: false, size: max }));
    assert_eq!(parse(b"1.18973149535723176509e+4932"), None);
    let least = Size::Finite { mantissa: 1, exponent: EXPONENT_MIN };
    assert_eq!(parse(b"3.6451995318824746025e-4951"), Some(Float { negative: false, size: least }));
    assert_eq!(parse(b"1.8e-4951"), None);
    assert_eq!(parse(b"0x1p-16445"), Some(Float { negative: false, size: least }));
    assert_eq!(parse(b"0x1p16384"), None);
    let max = Float { negative: false, size: max };
    assert_eq!(max.plus(max), None);
    assert_eq!(max.plus(parse(b"1").unwrap()), Some(max));
}

#[test]
fn no_text_takes_long() {
    let digits = "7".repeat(TEXT_BYTES_MAX - 8);
    for hard in
        [format!("{digits}e-4999"), format!("0.{digits}"), format!("0x.{digits}p99"), digits]
    {
        assert_eq!(
            text(&hard).is_none(),
            hard.len() > 5000 && !hard.contains(['e', '.']),
            "{hard}"
        );
    }
}

proptest! {
    /// `i128` arithmetic is exact where mantissas have room.
    #[test]
    fn small_fixed_point_sums_are_exact(
        a in -1_000_000_000i64..,
        b in -1_000_000_000i64..1_000_000_000,
    ) {
        let a = a % 1_000_000_000;
        let eighth = |n: i64| parse(format!("{}", n as f64 / 8.0).as_bytes()).unwrap();
        let sum = eighth(a).plus(eighth(b)).unwrap();
        let expected = format!("{}", (a + b) as f64 / 8.0);
        prop_assert_eq!(String::from_utf8(sum.to_text()).unwrap(), expected);
    }

    /// Rounded on from 64 to 53 bits it is what the standard library reads, but for ties, where
    /// rounding twice may differ from rounding once.
    #[test]
    fn parsing_agrees_with_the_standard_library(
        mantissa in 1u64..1 << 40,
        exponent in -250..250i32,
    ) {
        let text = format!("{mantissa}e{exponent}");
        let Size::Finite { mantissa, exponent } = parse(text.as_bytes()).unwrap().size else {
            panic!("finite");
        };
        prop_assume!(mantissa & 0x7ff != 0x400);
        let rounded = (mantissa >> 11) + (mantissa >> 10 & 1);
        let near = rounded as f64 * 2f64.powi(exponent as i32 + 11);
        prop_assert_eq!(near, text.parse::<f64>().unwrap());
    }

    #[test]
    fn sums_commute_and_cancel(a in any::<f64>(), b in any::<f64>()) {
        prop_assume!(a.is_finite() && b.is_finite());
        let [x, y] = [a, b].map(|number| parse(format!("{number:e}").as_bytes()).unwrap());
        prop_assert_eq!(x.plus(y), y.plus(x));
        let minus_x = Float { negative: !x.negative, ..x };
        prop_assert_eq!(x.plus(minus_x), Some(Float::ZERO));
        // But for -0 + 0, which is 0.
        prop_assert!(a == 0.0 || x.plus(Float::ZERO) == Some(x));
    }

    #[test]
    fn any_text_is_answered(text in "[-+]?(0x)?[0-9a-fA-F.]{0,30}([ep][-+]?[0-9]{0,6})?") {
        if let Some(float) = parse(text.as_bytes()) {
            let again = parse(&float.to_text());
            prop_assert!(again.is_some(), "{} became {:?}", text, float);
        }
    }
}

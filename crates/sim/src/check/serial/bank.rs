//! Is the money of a bank always the same?

use super::{Anomaly, Kind};

/// The anomaly of the first read of all accounts whose sum is not `total`, if there is one.
/// Transfers between accounts do not change the sum, so no transaction may see another sum.
pub fn bank<R: AsRef<[i64]>>(total: i64, reads: impl IntoIterator<Item = R>) -> Option<Anomaly> {
    let sum = |read: &R| read.as_ref().iter().map(|balance| i128::from(*balance)).sum::<i128>();
    let mut reads = reads.into_iter().enumerate();
    let (at, read) = reads.find(|(_, read)| sum(read) != i128::from(total))?;
    let (saw, sum) = (read.as_ref(), sum(&read));
    let text = format!("read {at} saw {saw:?}, which is {sum} together, not {total}");
    Some(Anomaly { kind: Kind::Sum, transactions: Vec::new(), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_neither_comes_nor_goes() {
        assert_eq!(bank(10, [[5, 5], [12, -2], [10, 0]]), None);
        let found = bank(10, [vec![5, 5], vec![5, 4], vec![3, 8]]).expect("9 is not 10");
        assert_eq!(
            found.to_string(),
            "sum changed: read 1 saw [5, 4], which is 9 together, not 10"
        );
        assert!(bank(0, [[i64::MAX, i64::MAX]]).is_some());
    }
}

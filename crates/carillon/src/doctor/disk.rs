//! The file system of the data directory, and how long it takes to sync.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{statfs, statvfs};

use super::Finding;

/// Free bytes that a node needs to begin at all.
const FREE_LEAST: u64 = 256 << 20;
/// … and below which it will soon refuse writes.
const FREE_MIN: u64 = 4 << 30;
/// Syncs that are measured, for so long at most.
const SYNCS: usize = 200;
const SYNCS_TIME: Duration = Duration::from_secs(1);
/// A group of the log, as a busy node writes it.
const GROUP_BYTES: usize = 16 << 10;
/// 99 % of syncs are to be quicker.
const SYNC_MAX: Duration = Duration::from_millis(20);
/// No disk that keeps what it has synced through a power cut is quicker than this, but for those
/// with a cache of their own.
const SYNC_LEAST: Duration = Duration::from_micros(8);

/// All of it.
pub(super) fn look(dir: &Path) -> Vec<Finding> {
    let place = existing(dir);
    let mut findings = vec![file_system(&place, kind_of(&place)), free(free_bytes(&place))];
    findings.push(match syncs(&place) {
        Ok(times) => sync_times(times),
        Err(error) => cannot_write(&place, &error),
    });
    findings
}

/// The directory, or the nearest one above it that is there.
fn existing(dir: &Path) -> PathBuf {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let found = absolute.ancestors().find(|path| path.is_dir());
    found.unwrap_or(Path::new("/")).to_owned()
}

fn kind_of(place: &Path) -> Option<u64> {
    statfs(place).ok().map(|found| found.f_type as u64)
}

fn file_system(place: &Path, kind: Option<u64>) -> Finding {
    let check = "file system";
    let on = |name| format!("{name}, of {}", place.display());
    let elsewhere = "put --dir on a local disk: ext4 or XFS";
    match kind {
        Some(0x0102_1994 | 0x8584_58f6) => Finding::bad(
            check,
            on("memory"),
            format!("nothing there is left when this machine starts again: {elsewhere}"),
        ),
        Some(0x6969 | 0xff53_4d42 | 0xfe53_4d42 | 0x517b) => Finding::uneasy(
            check,
            on("a network file system"),
            format!("a sync takes a round trip, and locks may be lost: {elsewhere}"),
        ),
        Some(0x794c_7630) => Finding::uneasy(
            check,
            on("overlay"),
            format!("it goes with its container: mount a volume, or {elsewhere}"),
        ),
        Some(0xef53) => Finding::well(check, on("ext4")),
        Some(0x5846_5342) => Finding::well(check, on("XFS")),
        Some(0x9123_683e) => Finding::well(check, on("btrfs")),
        Some(0x2fc1_2fc1) => Finding::well(check, on("ZFS")),
        Some(kind) => Finding::well(check, on(&format!("type {kind:#x}"))),
        None => Finding::unknown(check, format!("{} does not say", place.display())),
    }
}

fn free_bytes(place: &Path) -> Option<u64> {
    statvfs(place).ok().map(|found| found.f_bavail * found.f_frsize)
}

fn free(bytes: Option<u64>) -> Finding {
    let check = "free space";
    let Some(bytes) = bytes else { return Finding::unknown(check, "it cannot be read") };
    let found = format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    let advice = "a log and two checkpoints of all that memory_max holds need room. A node whose \
                  disk is full refuses writes and goes on reading";
    match bytes {
        bytes if bytes < FREE_LEAST => Finding::bad(check, found, advice),
        bytes if bytes < FREE_MIN => Finding::uneasy(check, found, advice),
        _ => Finding::well(check, found),
    }
}

/// Appends to a file and syncs it, again and again.
fn syncs(place: &Path) -> io::Result<Vec<Duration>> {
    let path = place.join(format!(".carillon-doctor-{}", std::process::id()));
    let measured = measure(&path);
    let removed = fs::remove_file(&path);
    let times = measured?;
    removed.map(|()| times)
}

fn measure(path: &Path) -> io::Result<Vec<Duration>> {
    let mut file = File::create_new(path)?;
    let (group, begun) = ([0x5a; GROUP_BYTES], Instant::now());
    let mut times = Vec::new();
    while times.len() < SYNCS && begun.elapsed() < SYNCS_TIME {
        let since = Instant::now();
        file.write_all(&group)?;
        file.sync_data()?;
        times.push(since.elapsed());
    }
    Ok(times)
}

fn sync_times(mut times: Vec<Duration>) -> Finding {
    let check = "sync";
    times.sort();
    let (Some(most), count) = (times.last().copied(), times.len()) else {
        return Finding::unknown(check, "it was not measured");
    };
    let (middle, high) = (times[count / 2], times[count * 99 / 100]);
    let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
    let found = format!(
        "{} for half of {count}, {} for 99 %, {} at most",
        millis(middle),
        millis(high),
        millis(most)
    );
    if high > SYNC_MAX {
        return Finding::uneasy(
            check,
            found,
            "each write waits for one. Use a disk of its own, an SSD with a cache that survives \
             power cuts, or keyspaces of durability `interval`",
        );
    }
    if middle < SYNC_LEAST {
        return Finding::uneasy(
            check,
            found,
            "that is quicker than disks are: a sync may not reach one, and then a power cut loses \
             what was acknowledged. Ask the provider",
        );
    }
    Finding::well(check, found)
}

fn cannot_write(place: &Path, error: &io::Error) -> Finding {
    Finding::bad(
        "sync",
        format!("no file can be written in {}: {error}", place.display()),
        "make the directory, and give it to the user that runs the node: `install -d -o carillon \
         -m 700 DIR`. Or name another one with --dir",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn syncs_are_judged_by_their_slowest_hundredth() {
        let of = |slow: usize, millis: u64| {
            let mut times = vec![Duration::from_micros(300); 200 - slow];
            times.resize(200, Duration::from_millis(millis));
            sync_times(times).verdict
        };
        assert_eq!(of(0, 0), Verdict::Well);
        assert_eq!(of(1, 500), Verdict::Well);
        assert_eq!(of(4, 30), Verdict::Uneasy);
        assert_eq!(sync_times(vec![Duration::from_micros(1); 200]).verdict, Verdict::Uneasy);
        assert_eq!(sync_times(Vec::new()).verdict, Verdict::Unknown);
    }

    #[test]
    fn places_that_lose_everything_are_named() {
        let verdict = |kind| file_system(Path::new("/x"), kind).verdict;
        assert_eq!(verdict(Some(0x0102_1994)), Verdict::Bad);
        assert_eq!(verdict(Some(0x6969)), Verdict::Uneasy);
        assert_eq!(verdict(Some(0xef53)), Verdict::Well);
        assert_eq!(verdict(None), Verdict::Unknown);
        assert_eq!(free(Some(1 << 20)).verdict, Verdict::Bad);
        assert_eq!(free(Some(1 << 30)).verdict, Verdict::Uneasy);
        assert_eq!(free(Some(1 << 40)).verdict, Verdict::Well);
    }

    #[test]
    fn what_is_not_there_yet_has_a_directory_above() {
        assert_eq!(existing(Path::new("/no/such/place")), Path::new("/"));
        let error = syncs(Path::new("/proc")).expect_err("nobody writes there");
        assert_eq!(cannot_write(Path::new("/proc"), &error).verdict, Verdict::Bad);
    }
}

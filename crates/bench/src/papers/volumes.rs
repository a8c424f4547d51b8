//! 003: search and sorting on a block device whose blocks lie in the memory of several computers.
//!
//! The document's device was a module of the kernel with a file system on it. Here the programs
//! speak the device's protocol themselves, read ahead as the kernel would, and leave writes under
//! way as it would ([`super::devices`]).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use chart::{Line, log};
use client::http::{KeyspaceSpec, VolumeSpec};
use harness::process::{Directory, Process};

use super::Bed;
use super::cluster::{Cluster, Door};
use super::devices::{Device, FileDevice, NbdDevice, PIECE_BYTES, PIECES_AHEAD};
use super::disk_programs::{BLOCK_BYTES, BLOCKS_HELD, Records, search};
use super::page::{Page, Verdict, shown};
use crate::Outcome;
use crate::load::random::Random;

const MIB: u64 = 1 << 20;
/// Characters of the document's patterns.
const PATTERNS: [usize; 4] = [4, 128, 512, 1024];
/// Bytes of the document's records.
const RECORDS: [usize; 2] = [2048, 4096];
/// The volume's name.
const VOLUME: &str = "paper";
/// Blocks that are read one by one, for the time that one takes.
const LONE_READS: u64 = 200;
/// How long a server may take to serve an export.
const SERVE_TIMEOUT: Duration = Duration::from_secs(60);
/// A shard of a volume splits at this size, so that four nodes have parts of it.
const SPLIT: [&str; 2] = ["--split-bytes", "16MiB"];
/// Letters of the file that is searched; none else is in a pattern.
const LETTERS: u64 = 26;
/// What a node of the document needed to send 4 KiB, in microseconds.
const DOCUMENT_PACKET: f64 = 224.0;

/// What is measured beside what, in the order of tables.
const TARGETS: [Target; 6] = [
    Target { name: "volume, 4 nodes", kind: Kind::Volume { nodes: 4, replicas: 1 } },
    Target { name: "volume, 4 nodes, 3 copies", kind: Kind::Volume { nodes: 4, replicas: 3 } },
    Target { name: "volume, 1 node", kind: Kind::Volume { nodes: 1, replicas: 1 } },
    Target { name: "nbdkit memory", kind: Kind::Nbdkit },
    Target { name: "file, not in memory", kind: Kind::Disk },
    Target { name: "file in tmpfs", kind: Kind::Tmpfs },
];
/// Places among them.
const FOUR: usize = 0;
const DISK: usize = 4;

struct Target {
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Volume { nodes: usize, replicas: u8 },
    Nbdkit,
    Disk,
    Tmpfs,
}

/// A target that runs.
enum Running {
    Volume(Box<Cluster>),
    /// Before its directory: dropped first.
    Nbdkit {
        address: String,
        _process: Process,
        _dir: Directory,
    },
    /// A file, and whether the kernel is to forget it before each program.
    File {
        path: PathBuf,
        is_cold: bool,
        _dir: Directory,
    },
}

impl Running {
    fn start(bed: &Bed<'_>, kind: Kind, bytes: u64) -> Outcome<Self> {
        match kind {
            Kind::Volume { nodes, replicas } => {
                let cluster = Cluster::start_volumes(bed, nodes, &SPLIT)?;
                make_volume(&cluster, replicas, bytes)?;
                Ok(Self::Volume(Box::new(cluster)))
            }
            Kind::Nbdkit => {
                let dir = Directory::new("papers-nbdkit")?;
                let address = harness::ports::unused();
                let mut command = Command::new("nbdkit");
                let port = address.port().to_string();
                command.args(["-f", "-i", "127.0.0.1", "-p", &port, "memory", &bytes.to_string()]);
                let process = Process::start(command, &dir.path().join("log"))
                    .map_err(|why| format!("nbdkit is not to be had ({why}): see setup.sh"))?;
                let address = address.to_string();
                let running = Self::Nbdkit { address, _process: process, _dir: dir };
                running.wait()?;
                Ok(running)
            }
            Kind::Disk => {
                let dir = Directory::new("papers-disk")?;
                let path = dir.path().join("file");
                Ok(Self::File { path, is_cold: true, _dir: dir })
            }
            Kind::Tmpfs => {
                let dir = Directory::within(Path::new("/dev/shm"), "papers-tmpfs")
                    .map_err(|why| format!("/dev/shm, a file system in memory: {why}"))?;
                let path = dir.path().join("file");
                Ok(Self::File { path, is_cold: false, _dir: dir })
            }
        }
    }

    fn open(&self) -> Outcome<Box<dyn Device>> {
        Ok(match self {
            Self::Volume(cluster) => {
                let addresses = cluster.reach(Door::Nbd).addresses;
                let first = addresses.first().ok_or("no node runs")?;
                Box::new(NbdDevice::connect(first, VOLUME)?)
            }
            Self::Nbdkit { address, .. } => Box::new(NbdDevice::connect(address, "")?),
            Self::File { path, is_cold, .. } => {
                let file = FileDevice::open(path)?;
                if *is_cold {
                    file.drop_cache()?;
                }
                Box::new(file)
            }
        })
    }

    /// Waits until it serves.
    fn wait(&self) -> Outcome<()> {
        let begun = Instant::now();
        loop {
            let mut block = vec![0; BLOCK_BYTES];
            match self.open().and_then(|mut device| device.read(0, &mut block)) {
                Ok(()) => return Ok(()),
                Err(why) if begun.elapsed() > SERVE_TIMEOUT => return Err(why),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Waits until what was written is where it stays.
    fn settle(&self) -> Outcome<()> {
        match self {
            Self::Volume(cluster) => cluster.wait_until_keyspace_rests(VOLUME),
            Self::Nbdkit { .. } | Self::File { .. } => Ok(()),
        }
    }
}

fn make_volume(cluster: &Cluster, replicas: u8, bytes: u64) -> Outcome<()> {
    let spec = KeyspaceSpec {
        name: VOLUME.to_owned(),
        placement: Some("linear-hash".to_owned()),
        durability: Some("sync".to_owned()),
        // Old blocks need not stay.
        retention_ms: Some(0),
        replicas: Some(replicas),
        skip_equal_writes: None,
        volume: Some(VolumeSpec { bytes, block_bytes: BLOCK_BYTES as u32, shared: false }),
    };
    cluster.client(0)?.keyspace_create(&spec)?;
    cluster.wait_until_keyspace_rests(VOLUME)?;
    let begun = Instant::now();
    for address in cluster.reach(Door::Nbd).addresses {
        loop {
            match NbdDevice::connect(&address, VOLUME) {
                Ok(_) => break,
                Err(why) if begun.elapsed() > SERVE_TIMEOUT => return Err(why),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
    Ok(())
}

/// What a target needed.
#[derive(Default)]
struct Found {
    /// By size and pattern: seconds.
    searches: Vec<(u64, [f64; PATTERNS.len()])>,
    /// By size and record: seconds.
    sorts: Vec<(u64, [f64; RECORDS.len()])>,
    /// Of the largest file, 4 KiB at a time with one under way, as the document's device did:
    /// seconds of a search for 512 characters.
    one_by_one: f64,
    /// A lone read of a random block, in microseconds: the median.
    lone_read: f64,
}

/// Measures it all.
pub fn measure(bed: &mut Bed<'_>) -> Outcome<Page> {
    let searched: &[u64] = bed.pick(&[1, 4], &[1, 4, 16, 64, 256]);
    let sorted: &[u64] = bed.pick(&[1], &[1, 4, 16, 64]);
    let repetitions = bed.pick(1, 3);
    let most = searched[searched.len() - 1].max(sorted[sorted.len() - 1]) * MIB;
    let (mut all, mut counts) = (Vec::new(), Vec::new());
    for target in TARGETS {
        bed.say(&format!("003: {}", target.name));
        let running = Running::start(bed, target.kind, most)?;
        let (found, counted) = of_target(&running, searched, sorted, repetitions)?;
        all.push(found);
        counts.push(counted);
    }
    // All devices have given the same bytes.
    if let Some(odd) = counts.iter().position(|counted| *counted != counts[0]) {
        let (first, other) = (TARGETS[0].name, TARGETS[odd].name);
        return Err(format!("patterns are found in `{first}` and `{other}` unlike often").into());
    }
    Ok(page(&all, repetitions))
}

fn of_target(
    running: &Running,
    searched: &[u64],
    sorted: &[u64],
    repetitions: usize,
) -> Outcome<(Found, Vec<u64>)> {
    let (mut found, mut counts) = (Found::default(), Vec::new());
    let most = searched[searched.len() - 1] * MIB;
    let patterns = fill_with_text(&mut *running.open()?, most)?;
    running.settle()?;
    for size in searched.iter().copied() {
        let mut seconds = [0.0; PATTERNS.len()];
        for (seconds, pattern) in seconds.iter_mut().zip(&patterns) {
            let pieces = (PIECE_BYTES, PIECES_AHEAD);
            let (median, count) = timed(running, size * MIB, pieces, pattern, repetitions)?;
            *seconds = median;
            counts.push(count);
        }
        found.searches.push((size, seconds));
    }
    // The smaller of the sizes is enough: it is slow.
    let small = searched[searched.len().saturating_sub(2)] * MIB;
    found.one_by_one = timed(running, small, (BLOCK_BYTES, 1), &patterns[2], 1)?.0;
    found.lone_read = lone_read(&mut *running.open()?, most)?;
    for size in sorted.iter().copied() {
        let mut seconds = [0.0; RECORDS.len()];
        for (seconds, record_bytes) in seconds.iter_mut().zip(RECORDS) {
            *seconds = sort(running, size * MIB, record_bytes)?;
        }
        found.sorts.push((size, seconds));
    }
    Ok((found, counts))
}

/// Writes a text; the patterns stand at its end, where they are found last.
fn fill_with_text(device: &mut dyn Device, bytes: u64) -> Outcome<Vec<Vec<u8>>> {
    let mut random = Random::new(3);
    let (mut piece, mut patterns) = (vec![0; PIECE_BYTES], Vec::new());
    for offset in (0..bytes).step_by(PIECE_BYTES) {
        piece.fill_with(|| b'a' + random.below(LETTERS) as u8);
        device.write(offset, &piece)?;
    }
    for pattern in PATTERNS {
        patterns.push(piece[piece.len() - pattern..].to_vec());
    }
    device.flush()?;
    Ok(patterns)
}

/// Searches so often; the median of the seconds, and how often the pattern is there.
fn timed(
    running: &Running,
    bytes: u64,
    pieces: (usize, u64),
    pattern: &[u8],
    repetitions: usize,
) -> Outcome<(f64, u64)> {
    let (mut all, mut count) = (Vec::new(), 0);
    for _ in 0..repetitions {
        let mut device = running.open()?;
        let begun = Instant::now();
        count = search(&mut *device, bytes, pieces, pattern)?;
        all.push(begun.elapsed().as_secs_f64());
    }
    all.sort_by(f64::total_cmp);
    Ok((all[all.len() / 2], count))
}

fn lone_read(device: &mut dyn Device, bytes: u64) -> Outcome<f64> {
    let (mut random, mut block) = (Random::new(4), vec![0; BLOCK_BYTES]);
    let mut all = Vec::new();
    for _ in 0..LONE_READS {
        let offset = random.below(bytes / BLOCK_BYTES as u64) * BLOCK_BYTES as u64;
        let begun = Instant::now();
        device.read(offset, &mut block)?;
        all.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    all.sort_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}

/// Fills a part with random records, and sorts them; how long that took.
fn sort(running: &Running, bytes: u64, record_bytes: usize) -> Outcome<f64> {
    let mut random = Random::new(bytes ^ record_bytes as u64);
    let mut device = running.open()?;
    let (mut block, mut sum) = (vec![0; BLOCK_BYTES], 0u64);
    for offset in (0..bytes).step_by(BLOCK_BYTES) {
        for record in block.chunks_mut(record_bytes) {
            let key = random.bits();
            sum = sum.wrapping_add(key);
            record.chunks_mut(8).for_each(|piece| piece.copy_from_slice(&key.to_be_bytes()));
        }
        device.write(offset, &block)?;
    }
    device.flush()?;
    drop(device);
    let (mut device, count) = (running.open()?, bytes / record_bytes as u64);
    let begun = Instant::now();
    Records::new(&mut *device, record_bytes).quicksort(count)?;
    let seconds = begun.elapsed().as_secs_f64();
    // Are all there, in order?
    let (mut records, mut before) = (Records::new(&mut *device, record_bytes), 0);
    for number in 0..count {
        let key = u64::from_be_bytes(records.key(number)?);
        if key < before {
            return Err(format!("record {number} of {count} is not in order").into());
        }
        (before, sum) = (key, sum.wrapping_sub(key));
    }
    if sum != 0 { Err("sorting has lost a record".into()) } else { Ok(seconds) }
}

fn page(all: &[Found], repetitions: usize) -> Page {
    let mut page =
        Page::new("003", "003: search and sorting on a distributed disk, measured again");
    page.say(
        "The document: a paper on SDDSfL, a block device of Linux whose 4 KiB blocks lie in the \
         memory of up to four computers (LH* with open addressing, gigabit Ethernet, one block at \
         a time through a module of the kernel), beside disks of 2008. It gives its times in \
         figures only. Here: volumes over NBD, which keep what they answered on disk; all nodes \
         on one machine.",
    );
    page.head("Claims");
    page.verdicts(&verdicts(all));
    page.head("Search by Boyer and Moore (figures 1 to 4)");
    page.say(&format!(
        "Seconds to read a file of random characters from start to end and find a pattern, which \
         stands at the end of the largest file: the median of {repetitions}. Programs read {} KiB \
         at a time and {} pieces ahead, as the kernel would; the kernel does so for files. Before \
         each search of the file on disk the kernel forgets it.",
        PIECE_BYTES >> 10,
        PIECES_AHEAD
    ));
    let charts = [("fig1", 0), ("fig2", 1), ("fig3", 2), ("fig4", 3)];
    for (chart, pattern) in charts {
        let line = |(at, target): (usize, &Target)| {
            let points = all[at].searches.iter().map(|(size, all)| (*size as f64, all[pattern]));
            Line::new(target.name, at + 1, points.collect())
        };
        let lines: Vec<Line> = TARGETS.iter().enumerate().map(line).collect();
        let title = format!("Search for {} characters", PATTERNS[pattern]);
        page.chart(chart, &title, [log("file, MiB"), log("seconds")], &lines);
    }
    let rows = all.iter().enumerate().flat_map(|(at, found)| {
        found.searches.iter().map(move |(size, seconds)| {
            let head = [TARGETS[at].name.to_owned(), size.to_string()];
            let rate = *size as f64 / seconds[2];
            head.into_iter().chain(seconds.map(shown)).chain([shown(rate)]).collect()
        })
    });
    let head = ["on", "MiB", "4 characters", "128", "512", "1 024", "MiB/s (512)"];
    page.table(&head, &rows.collect::<Vec<Vec<String>>>());
    page.head("Quicksort (figures 5 to 7)");
    page.say(&format!(
        "Seconds to sort random records in place. The program holds {BLOCKS_HELD} blocks of 4 KiB, \
         and asks for another when it needs it; up to 32 writes are under way. The kernel holds \
         all of a file, too. Schedulers of disks, which the document compares, have no part in it."
    ));
    for (chart, record) in [("fig5", 0), ("fig6", 1)] {
        let line = |(at, target): (usize, &Target)| {
            let points = all[at].sorts.iter().map(|(size, all)| (*size as f64, all[record]));
            Line::new(target.name, at + 1, points.collect())
        };
        let lines: Vec<Line> = TARGETS.iter().enumerate().map(line).collect();
        let title = format!("Quicksort, records of {} bytes", RECORDS[record]);
        page.chart(chart, &title, [log("file, MiB"), log("seconds")], &lines);
    }
    let rows = all.iter().enumerate().flat_map(|(at, found)| {
        found.sorts.iter().map(move |(size, seconds)| {
            let head = [TARGETS[at].name.to_owned(), size.to_string()];
            head.into_iter().chain(seconds.map(shown)).collect()
        })
    });
    page.table(
        &["on", "MiB", "records of 2 048 bytes", "of 4 096"],
        &rows.collect::<Vec<Vec<String>>>(),
    );
    page.head("One block at a time");
    page.say(
        "A lone read of 4 KiB, in microseconds (the median), and a search for 512 characters that \
         reads 4 KiB at a time and nothing ahead, as the document's device did: its throughput.",
    );
    let small = |found: &Found| found.searches[found.searches.len().saturating_sub(2)].0 as f64;
    let rows = all.iter().enumerate().map(|(at, found)| {
        vec![
            TARGETS[at].name.to_owned(),
            shown(found.lone_read),
            shown(small(found) / found.one_by_one),
        ]
    });
    page.table(&["on", "µs a read", "MiB/s, one by one"], &rows.collect::<Vec<_>>());
    page
}

fn verdicts(all: &[Found]) -> Vec<Verdict> {
    let largest = |found: &Found| found.searches[found.searches.len() - 1].1;
    let (four, disk) = (&all[FOUR], &all[DISK]);
    // How many times as long as on the disk.
    let ratio = |at: usize| largest(four)[at] / largest(disk)[at];
    let sorted = |found: &Found| found.sorts[found.sorts.len() - 1].1;
    let sort_ratio = |at: usize| sorted(four)[at] / sorted(disk)[at];
    let disk_rate = disk.searches[disk.searches.len() - 1].0 as f64 / largest(disk)[2];
    let pieces = {
        let at = four.searches.len().saturating_sub(2);
        four.one_by_one / four.searches[at].1[2]
    };
    vec![
        Verdict::new(
            "the longer the pattern, the better the distributed disk beside local ones (figures 1 \
             to 4)",
            format!(
                "{} × the time of the cold file for 4 characters, {} × for 1 024",
                shown(ratio(0)),
                shown(ratio(3))
            ),
            Some(ratio(3) < ratio(0)),
        ),
        Verdict::new(
            "with patterns of 512 it is at least among the fastest: only SCSI is faster (figures \
             3, 4)",
            format!(
                "{} × the time of the cold file, whose disk reads {} MiB/s",
                shown(ratio(2)),
                shown(disk_rate)
            ),
            Some(ratio(2) < 1.0),
        ),
        Verdict::new(
            "the bigger the records, the better it sorts beside local disks (figures 5 to 7)",
            format!(
                "{} × the time of the file for 2 KiB, {} × for 4 KiB",
                shown(sort_ratio(0)),
                shown(sort_ratio(1))
            ),
            Some(sort_ratio(1) < sort_ratio(0)),
        ),
        Verdict::new(
            "it suits random access better than sequential access",
            format!(
                "{} × the time of the file for sorting, {} × for searching",
                shown(sort_ratio(1)),
                shown(ratio(2))
            ),
            Some(sort_ratio(1) < ratio(2)),
        ),
        Verdict::new(
            format!("4 KiB take {DOCUMENT_PACKET:.0} µs over the network, by ping"),
            format!("{} µs for a lone read, through loopback", shown(four.lone_read)),
            Some(four.lone_read < DOCUMENT_PACKET),
        ),
        Verdict::new(
            "its limit of 4 KiB at a time costs it throughput (section 7)",
            format!("{} × the time with 4 KiB one by one", shown(pieces)),
            Some(pieces > 1.0),
        ),
    ]
}

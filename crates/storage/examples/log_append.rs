//! What an append costs without a disk: groups into memory, and back by [`Log::open`].
//!
//! `cargo run --release -p storage --example log_append`
#![allow(clippy::disallowed_methods, reason = "a bench needs a clock")]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use keyspace::ShardId;
use storage::Error;
use storage::disk::{Disk, File};
use storage::log::{Group, Log, LogOptions, Lsn};

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Files that are vectors, so that the log's own work is what is measured.
#[derive(Default)]
struct Memory {
    files: Mutex<BTreeMap<String, Bytes>>,
}

struct MemoryFile(Bytes);

impl Disk for Memory {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.files.lock().unwrap().insert(name.to_owned(), Bytes::default());
        self.open(name)
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let files = self.files.lock().unwrap();
        let file = files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemoryFile(file.clone())))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.lock().unwrap().remove(name).map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().unwrap().keys().cloned().collect())
    }
    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }
}

impl File for MemoryFile {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut file = self.0.lock().unwrap();
        let end = at as usize + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[at as usize..end].copy_from_slice(bytes);
        Ok(())
    }
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let file = self.0.lock().unwrap();
        let rest = file.get(at as usize..).unwrap_or_default();
        let bytes = rest.len().min(buf.len());
        buf[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        // Touched, as a real file's pages would be by the time they are written.
        self.0.lock().unwrap().resize(bytes as usize, 0);
        Ok(())
    }
    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.lock().unwrap().truncate(bytes as usize);
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }
}

fn open(disk: &Arc<Memory>, start: Lsn) -> (Log, u64) {
    let segment_bytes = LogOptions::SEGMENT_BYTES_DEFAULT;
    let options = LogOptions { cluster: 1, salt: 2, segment_bytes };
    let mut records = 0;
    let (log, _) = Log::open::<Error>(disk.clone(), options, start, &mut |_, _| {
        records += 1;
        Ok(())
    })
    .expect("memory does not fail");
    (log, records)
}

fn measure(record_bytes: usize, records_per_group: usize, total_bytes: usize) {
    let disk = Arc::new(Memory::default());
    let (mut log, _) = open(&disk, Lsn::NEW);
    let start = log.written_end();
    let payload = vec![7u8; record_bytes - 10];
    let groups = total_bytes / (record_bytes * records_per_group);
    let mut group = Group::new();
    // On a machine that does other things too, the quickest of many rounds is the honest one.
    let rounds = 200;
    let mut append_ns = f64::MAX;
    for _ in 0..rounds {
        let begun = Instant::now();
        for _ in 0..groups / rounds {
            for _ in 0..records_per_group {
                group.push(ShardId(3), 1, &[&[1; 10], &payload]).expect("small");
            }
            log.reserve(group.bytes()).expect("space");
            log.append(&mut group).expect("memory does not fail");
            if log.unsynced_bytes() > 1 << 20 {
                let job = log.begin_sync().expect("sound");
                let result = job.run();
                log.finish_sync(&job, result).expect("memory does not fail");
            }
        }
        let ns = begun.elapsed().as_nanos() as f64 / (groups / rounds) as f64;
        append_ns = append_ns.min(ns);
    }
    let mut open_s = f64::MAX;
    let mut records = 0;
    for _ in 0..5 {
        let begun = Instant::now();
        (log, records) = open(&disk, start);
        open_s = open_s.min(begun.elapsed().as_secs_f64());
    }
    let mib = (log.written_end().0 - start.0) as f64 / f64::from(1 << 20);
    println!(
        "{records_per_group:>4} records of {record_bytes:>6} B per group: {append_ns:>8.0} ns per \
         append; open: {:>6.0} MiB/s, {:>5.1} M records/s",
        mib / open_s,
        records as f64 / open_s / 1e6
    );
}

fn main() {
    for (record_bytes, records_per_group) in [(150, 1), (150, 16), (150, 400), (60 << 10, 1)] {
        measure(record_bytes, records_per_group, 256 << 20);
    }
}

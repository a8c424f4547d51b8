//! `carillon repair-clock`: rewrites a lone node's data without times that are far ahead.

use std::time::{SystemTime, UNIX_EPOCH};

use server::repair_clock::repair;
use server::utc::utc;

use crate::cli::RepairClockArgs;
use crate::exit::Exit;
use crate::output::{self, complain};

/// Runs the repair, and prints what was done.
pub fn repair_clock(args: &RepairClockArgs) -> Exit {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.map_or(0, |since| since.as_millis() as u64);
    match repair(&args.dir, &args.to, now) {
        Ok(done) => output::line(&format!(
            "wrote {} values of {} shards to {}, with timestamps up to {}; those in {}, which is \
             unchanged, went up to {}. Start the node on the new directory: its cluster is {:016x}",
            done.values,
            done.shards,
            args.to.display(),
            utc(done.now_millis),
            args.dir.display(),
            utc(done.newest_millis),
            done.cluster,
        )),
        Err(error) => {
            complain(&error.to_string());
            Exit::Refused
        }
    }
}

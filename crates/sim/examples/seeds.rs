//! Runs seeds.
use sim::{Options, run};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let from: u64 = args[1].parse().unwrap();
    let count: u64 = args[2].parse().unwrap();
    let bug = args.get(3).filter(|s| *s != "-").map(|b| b.parse().unwrap());
    let verbose = args.get(4).is_some();
    for seed in from..from + count {
        let report = run(&Options { bug, verbose, ..Options::new(seed) });
        if verbose { println!("{}", report.trace.unwrap()); }
        println!("{seed} {:016x} step {} {:?}", report.trace_hash, report.step, report.counts);
        println!("  {}", report.mood);
        if let Err(v) = report.verdict { println!("  FAIL {v}"); }
    }
}

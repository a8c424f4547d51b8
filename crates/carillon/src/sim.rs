//! `carillon sim`: the simulator, from the command line.

use std::io::Write as _;

use sim::Options;
use sim::cli::{Wanted, main_with};

use crate::cli::SimArgs;
use crate::exit::Exit;

/// Runs seeds.
pub fn sim(args: &SimArgs) -> Exit {
    let SimArgs { seed, seeds, steps, clients, faults, bug, doublecheck, verbose } = *args;
    let options = Options { seed, steps, clients, faults, bug, verbose };
    let mut out = std::io::stdout().lock();
    let ran = main_with(&Wanted { options, seeds, doublecheck }, &mut out);
    match ran.and_then(|well| out.flush().map(|()| well)) {
        Ok(true) => Exit::Done,
        // Nobody reads the output: there is no one to tell.
        Ok(false) | Err(_) => Exit::Refused,
    }
}

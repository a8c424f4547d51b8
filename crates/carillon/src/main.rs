//! Being built.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
fn main() {
    let mut flags = Vec::new();
    let args: Vec<String> = std::env::args().skip(1).collect();
    for pair in args.chunks(2) { flags.push((pair[0].trim_start_matches("--").to_string(), pair[1].clone())); }
    let config = server::config::load(None, std::env::vars_os(), &flags).unwrap();
    server::run::run(config).unwrap();
}

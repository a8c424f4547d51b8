//! What a client of a volume sends: options, then requests. Any bytes are taken or end the
//! connection, and how they are cut into pieces changes no answer.
#![no_main]

use gateway::nbd::{
    Export, Exports, Found, Negotiation, Parsed, ReplyWriter, Step, Transmission, parse,
};
use libfuzzer_sys::fuzz_target;

struct One;

impl Exports for One {
    fn find(&self, name: &str) -> Found {
        if !matches!(name, "" | "disk") {
            return Found::Refused("no volume has this name".to_owned());
        }
        Found::Export(Export {
            name: "disk".to_owned(),
            description: "a disk".to_owned(),
            size: 1 << 20,
            block: 4096,
            is_read_only: false,
            has_multi_conn: true,
        })
    }

    fn names(&self) -> Vec<String> {
        vec!["disk".to_owned()]
    }
}

/// What is answered to these bytes, given in pieces of `piece` bytes.
fn answers(bytes: &[u8], piece: usize) -> Vec<u8> {
    let (mut negotiation, mut form) = (Negotiation::default(), None::<Transmission>);
    let (mut out, mut start, mut end) = (Vec::new(), 0, 0);
    loop {
        let input = &bytes[start..end];
        let used = match &form {
            None => {
                let (used, step) = negotiation.step(input, &One, &mut out);
                match step {
                    Step::More => {}
                    Step::Wait => unreachable!("all names are known"),
                    Step::Chosen(chosen) => form = Some(chosen.transmission),
                    Step::End | Step::StartTls => return out,
                }
                used
            }
            Some(form) => match parse(input, form) {
                Parsed::More => 0,
                Parsed::Request(request, used) => {
                    ReplyWriter::new(form).done(request.cookie, request.offset, &mut out);
                    used
                }
                Parsed::Refused(fault, used, skip) => {
                    let writer = ReplyWriter::new(form);
                    writer.error(fault.cookie, fault.offset, fault.errno, fault.why, &mut out);
                    // What is skipped may not have come.
                    end = end.max(bytes.len().min(start + used + skip as usize));
                    (used + skip as usize).min(end - start)
                }
                Parsed::Broken(_) => return out,
            },
        };
        assert!(used <= end - start);
        start += used;
        if used == 0 {
            if end == bytes.len() {
                return out;
            }
            end = (end + piece).min(bytes.len());
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let whole = answers(bytes, bytes.len().max(1));
    assert_eq!(whole, answers(bytes, 1));
    assert_eq!(whole, answers(bytes, 7));
});

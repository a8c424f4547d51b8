//! `carillon volume check`: reads all that is in a volume's keyspace as of one snapshot.

use client::http::{Client, ClientError, KeyspaceInfo, VolumeSpec, bytes_of};
use serde_json::{Value, json};
use server::utc::utc;

use crate::cli::NodeArgs;
use crate::exit::Exit;
use crate::output::{self, table};

/// How long the snapshot is kept if this command dies; it is renewed as often as pages come.
const SNAPSHOT_MS: u64 = 600_000;
/// Bytes of blocks that are asked for at once.
const PAGE_BYTES: u64 = 4 << 20;
/// Keys of a page: what a listing gives at most.
const PAGE_KEYS: u64 = 1000;
/// Things that are no blocks, of which the output says what they are.
const SHOWN_MAX: usize = 20;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// Blocks that are there.
    blocks: u64,
    /// Those of them that lie behind the volume's size.
    hidden: u64,
    /// Those of them that are zeroes, and need not be there.
    zeroes: u64,
    /// What is no block.
    bad: u64,
    /// The first of those, in words.
    shown: Vec<String>,
}

impl Found {
    fn add(&mut self, volume: VolumeSpec, key: &[u8], value: &[u8]) {
        let block = u64::from(volume.block_bytes);
        let Ok(number) = key.try_into().map(u64::from_be_bytes) else {
            return self.is_bad(format!("key {} is no number of a block", key.escape_ascii()));
        };
        // An empty value is a block that was made zeroes in a clone.
        if !value.is_empty() && value.len() as u64 != block {
            return self.is_bad(format!("block {number} has {} bytes", value.len()));
        }
        self.blocks += 1;
        self.hidden += u64::from(number >= volume.bytes / block);
        self.zeroes += u64::from(value.iter().all(|byte| *byte == 0));
    }

    fn is_bad(&mut self, what: String) {
        self.bad += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(what);
        }
    }
}

/// Checks a volume.
pub(super) fn run(
    node: &NodeArgs,
    client: &Client,
    info: &KeyspaceInfo,
) -> Result<Exit, ClientError> {
    let volume = info.volume.unwrap_or(VolumeSpec { bytes: 0, block_bytes: 1, shared: false });
    let name = &info.name;
    let taken = client.snapshot_take(std::slice::from_ref(name), None, Some(SNAPSHOT_MS))?;
    let token = taken["token"].as_str().unwrap_or_default();
    let found = read_all(client, name, volume, token);
    // It ends by itself if this fails.
    let released = client.snapshot_release(token);
    let found = found?;
    released?;
    let at_ms = taken["at_ms"].as_u64().unwrap_or_default();
    let exit = match node.json {
        true => output::json(&json!({
            "name": name,
            "at_ms": at_ms,
            "blocks": found.blocks,
            "hidden_blocks": found.hidden,
            "zero_blocks": found.zeroes,
            "bad": found.bad,
            "shown": found.shown,
        })),
        false => {
            let headings = ["NAME", "TIME", "BLOCKS", "HIDDEN", "ZEROES", "BAD"];
            let mut row = vec![name.clone(), utc(at_ms)];
            let counts = [found.blocks, found.hidden, found.zeroes, found.bad];
            row.extend(counts.map(|count| count.to_string()));
            output::raw(table(&headings, &[row]).as_bytes())
        }
    };
    if found.bad == 0 {
        return Ok(exit);
    }
    found.shown.iter().for_each(|what| output::complain(what));
    output::complain(&format!(
        "{} keys of volume {name} are no blocks; those that have numbers read as errors until they \
         are written or trimmed",
        found.bad
    ));
    Ok(Exit::Refused)
}

fn read_all(
    client: &Client,
    name: &str,
    volume: VolumeSpec,
    token: &str,
) -> Result<Found, ClientError> {
    let (mut found, mut cursor) = (Found::default(), None::<String>);
    let limit = (PAGE_BYTES / u64::from(volume.block_bytes)).clamp(1, PAGE_KEYS);
    loop {
        let page = client.keys(name, b"", cursor.as_deref(), limit, Some(token))?;
        let keys: Vec<Vec<u8>> = items(&page["keys"]).iter().filter_map(bytes_of).collect();
        // A page may have a few more than were asked for.
        for keys in keys.chunks(limit as usize) {
            let names: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let values = client.get_many(name, &names, Some(token))?;
            for (key, value) in keys.iter().zip(items(&values["values"])) {
                let value = bytes_of(&value["value"]).unwrap_or_default();
                found.add(volume, key, &value);
            }
        }
        let next = page["next"].as_str().map(str::to_owned);
        if next.is_none() || next == cursor {
            return Ok(found);
        }
        client.snapshot_renew(token, Some(SNAPSHOT_MS))?;
        cursor = next;
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_block_is_counted_and_named() {
        let volume = VolumeSpec { bytes: 2 * 4096, block_bytes: 4096, shared: false };
        let mut found = Found::default();
        found.add(volume, &1_u64.to_be_bytes(), &[7; 4096]);
        found.add(volume, &2_u64.to_be_bytes(), &[0; 4096]);
        found.add(volume, &0_u64.to_be_bytes(), b"short");
        found.add(volume, b"name", &[7; 4096]);
        found.add(volume, &0_u64.to_be_bytes(), b"");
        assert_eq!((found.blocks, found.hidden, found.zeroes, found.bad), (3, 1, 2, 2));
        assert_eq!(found.shown, ["block 0 has 5 bytes", "key name is no number of a block"]);
        (0..100).for_each(|_| found.add(volume, b"x", b""));
        assert_eq!((found.bad, found.shown.len()), (102, SHOWN_MAX));
    }
}

//! Commands on a draft do what they do on the engine itself.

use command::limits;
use proptest::prelude::*;
use storage::engine::Layout;

use command::{
    ExpireIf, Expiry, ObservedVersion, Read, Reply, SetIf, SetReply, Step, Transaction, Write,
    Writer, apply,
};

/// Random commands: those of the tests of `command`.
#[path = "../../../../command/src/samples.rs"]
mod samples;

use super::*;
use samples::{KEYS, transactions, writes};

fn held(engine: &MemoryEngine, key: &[u8], at: Timestamp) -> Option<(Box<[u8]>, u64)> {
    let version = engine.newest(&engine.hasher().key(key), at)?;
    Some((version.value.into(), version.expiry_ms))
}

proptest! {
    #[test]
    fn draft_equals_engine_after_same_commands(
        before in prop::collection::vec(writes(), 0..8),
        owned in transactions(),
    ) {
        let at = Timestamp::from_millis(1000);
        let hasher = KeyHasher::new([1; 16]);
        let [there, mut done] = [(), ()].map(|()| {
            let mut engine = MemoryEngine::new(Layout::Ordered, hasher);
            for (millis, write) in (990..).zip(&before) {
                let at = Timestamp::from_millis(millis);
                apply(&mut engine, &write.borrow(), at);
            }
            engine
        });
        let Write::Transaction(part) = owned.borrow() else { panic!("it is one") };
        let mut draft = SpeculativeView::new(&there, &part);
        let answers: Vec<Reply> = part.run(&mut draft, at);
        let on_engine: Vec<Reply> = part.run(&mut done, at);
        prop_assert_eq!(answers, on_engine);
        let intents = draft.into_intents();
        for key in KEYS {
            let had = held(&there, key, at);
            let has = held(&done, key, at);
            let newest = done.newest_timestamp(&hasher.key(key));
            match intents.iter().find(|(name, _)| *name == key).map(|(_, intent)| intent) {
                None | Some(Intent::Keep) => {
                    prop_assert_eq!(&had, &has);
                    prop_assert!(newest < at);
                }
                Some(Intent::Put(value, expiry)) => {
                    prop_assert_eq!(&has, &Some((value[..].into(), *expiry)));
                    prop_assert_eq!(newest, at);
                }
                Some(Intent::Delete) => {
                    prop_assert!(has.is_none());
                    prop_assert_eq!(newest, at);
                }
            }
        }
    }
}

//! What holds of all catalogues, ops and errors.

use proptest::prelude::*;

use super::*;

fn options() -> impl Strategy<Value = KeyspaceOptions> {
    let placement =
        prop_oneof![Just(Placement::Hashed), Just(Placement::Ordered), Just(Placement::LinearHash)];
    let retention = prop_oneof![Just(u64::MAX), 0..100_000u64];
    let size = prop_oneof![Just(u64::MAX), 1..100u64, Just(1 << 20)];
    let block = prop_oneof![Just(4096), Just(65_536), any::<u32>()];
    let origin = prop_oneof![
        Just(VolumeOrigin::Empty),
        (1..4u32, any::<u64>()).prop_map(|(source, at)| VolumeOrigin::Clone {
            source: KeyspaceId(source),
            at: Timestamp(at),
        }),
        any::<u64>().prop_map(|since| VolumeOrigin::Flattened { since: Timestamp(since) }),
    ];
    let volume = prop::option::of((size, block, any::<bool>(), origin)).prop_map(|of| {
        of.map(|(bytes, block_bytes, is_shared, origin)| VolumeOptions {
            bytes,
            block_bytes,
            is_shared,
            origin,
        })
    });
    (placement, durability(), retention, 0..11u8, any::<bool>(), volume).prop_map(
        |(placement, durability, retention_ms, replicas, skips_equal, volume)| KeyspaceOptions {
            placement,
            durability,
            retention_ms,
            replicas,
            skips_equal,
            volume,
        },
    )
}

fn durability() -> impl Strategy<Value = Durability> {
    prop_oneof![Just(Durability::Sync), Just(Durability::Interval), Just(Durability::Memory)]
}

fn errors() -> impl Strategy<Value = CatalogueError> {
    let named = (0..4u8, any::<String>()).prop_map(|(kind, name)| {
        let name = name.into();
        match kind {
            0 => CatalogueError::BadName { name },
            1 => CatalogueError::NumberedName { name },
            2 => CatalogueError::Exists { name },
            _ => CatalogueError::NotFound { name },
        }
    });
    prop_oneof![
        4 => named,
        1 => Just(CatalogueError::TooMany),
        1 => Just(CatalogueError::OutOfIds),
        1 => any::<u64>()
            .prop_map(|retention_ms| CatalogueError::RetentionTooLong { retention_ms }),
        1 => any::<u8>().prop_map(|replicas| CatalogueError::BadReplicas { replicas }),
        1 => any::<u8>().prop_map(|replicas| CatalogueError::NeedsSync { replicas }),
        1 => any::<(u8, u8)>().prop_map(|(from, to)| CatalogueError::FewerReplicas { from, to }),
        1 => any::<u64>().prop_map(|node| CatalogueError::NodeRemoved { node: NodeId(node) }),
        1 => (any::<u64>(), admin_state()).prop_map(|(node, admin_state)| {
            CatalogueError::NotDraining { node: NodeId(node), admin_state }
        }),
        1 => any::<(String, u8, u64)>().prop_map(|(keyspace, replicas, left)| {
            CatalogueError::TooFewNodes { keyspace: keyspace.into(), replicas, left }
        }),
        1 => Just(CatalogueError::LastNode),
        1 => Just(CatalogueError::TooManyAdminStates),
        1 => (version(), version())
            .prop_map(|(from, to)| CatalogueError::VersionSkipped { from, to }),
        1 => (version(), version())
            .prop_map(|(version, needs)| CatalogueError::VersionTooLow { version, needs }),
        1 => any::<String>().prop_map(|name| CatalogueError::NotLinearHash { name: name.into() }),
        1 => any::<String>().prop_map(|name| CatalogueError::LibraryExists { name: name.into() }),
        1 => any::<String>().prop_map(|name| CatalogueError::FunctionExists { name: name.into() }),
        1 => any::<String>().prop_map(|name| CatalogueError::NoLibrary { name: name.into() }),
        1 => any::<u64>().prop_map(|bytes| CatalogueError::LibrariesTooLarge { bytes }),
        1 => any::<u64>().prop_map(|ttl_ms| CatalogueError::LeaseTooLong { ttl_ms }),
        1 => Just(CatalogueError::TooManyLeases),
        1 => any::<u64>().prop_map(|id| CatalogueError::NoLease { id }),
        1 => any::<(u64, u64)>().prop_map(|(at, safe_point)| {
            let (at, safe_point) = (crate::Timestamp(at), crate::Timestamp(safe_point));
            CatalogueError::BelowSafePoint { at, safe_point }
        }),
        1 => any::<String>().prop_map(|name| CatalogueError::NotClone { name: name.into() }),
        1 => any::<String>().prop_map(|name| CatalogueError::HasSnapshots { name: name.into() }),
        1 => any::<(String, String)>().prop_map(|(name, by)| {
            CatalogueError::HasClones { name: name.into(), by: by.into() }
        }),
        1 => (any::<String>(), 0..4usize).prop_map(|(name, why)| {
            let all = [
                NoCloneReason::NoVolume,
                NoCloneReason::TooMany,
                NoCloneReason::TooDeep,
                NoCloneReason::OtherBlocks,
            ];
            CatalogueError::NoClone { name: name.into(), why: all[why] }
        }),
        1 => (any::<String>(), record()).prop_map(|(name, record)| {
            CatalogueError::StaleTableEpoch { name: name.into(), record }
        }),
    ]
}

fn record() -> impl Strategy<Value = LinearHashRecord> {
    let step = prop_oneof![
        Just(None),
        Just(Some(LinearHashStep::Grow)),
        Just(Some(LinearHashStep::Shrink))
    ];
    (2..linear_hash::BUCKETS_MAX, any::<u64>(), step)
        .prop_map(|(buckets, epoch, step)| LinearHashRecord { buckets, epoch, step })
}

fn act() -> impl Strategy<Value = LinearHashOp> {
    prop_oneof![
        Just(LinearHashOp::Grow),
        Just(LinearHashOp::Shrink),
        Just(LinearHashOp::Begin),
        Just(LinearHashOp::Done)
    ]
}

fn version() -> impl Strategy<Value = ClusterVersion> {
    (1..=u8::MAX).prop_map(|number| ClusterVersion::new(number).expect("not 0"))
}

fn admin_state() -> impl Strategy<Value = AdminState> {
    prop_oneof![
        Just(AdminState::Member),
        Just(AdminState::Cordoned),
        Just(AdminState::Draining),
        Just(AdminState::Removed)
    ]
}

#[derive(Clone, Debug)]
enum Op {
    Create(String, KeyspaceOptions),
    Alter(String, KeyspaceAlteration),
    Drop(String),
    Node(u64, AdminState, BTreeSet<u64>),
    Shard(u32),
    RaiseVersion(ClusterVersion),
    File(u32, u64, LinearHashOp),
    Load(Library, bool),
    Delete(String),
    FlushLibraries,
    Restore(RestorePolicy, Vec<Library>),
    FlushScripts,
}

fn library() -> impl Strategy<Value = Library> {
    let name = || "[a-cA]{1,2}";
    let function = (0..32u8, prop::option::of(prop::collection::vec(any::<u8>(), 0..4)));
    let functions = prop::collection::btree_map(name(), function, 1..4);
    let code = prop::collection::vec(any::<u8>(), 0..9);
    (name(), code, functions).prop_map(|(name, code, functions)| Library {
        name: name.into(),
        code: code.into(),
        functions: functions
            .into_iter()
            .map(|(name, (flags, description))| Function {
                name: name.into(),
                flags: FunctionFlags::of_bits(flags).expect("five bits"),
                description: description.map(Vec::into_boxed_slice),
            })
            .collect(),
    })
}

fn library_ops() -> impl Strategy<Value = Op> {
    let policy = prop_oneof![
        Just(RestorePolicy::Append),
        Just(RestorePolicy::Replace),
        Just(RestorePolicy::Flush)
    ];
    let libraries = prop::collection::vec(library(), 0..4).prop_map(|mut libraries| {
        libraries.sort_by(|a, b| a.name.cmp(&b.name));
        libraries.dedup_by(|a, b| a.name == b.name);
        libraries
    });
    prop_oneof![
        4 => (library(), any::<bool>()).prop_map(|(library, replace)| Op::Load(library, replace)),
        1 => "[a-cA]{1,2}".prop_map(Op::Delete),
        1 => Just(Op::FlushLibraries),
        2 => (policy, libraries).prop_map(|(policy, libraries)| Op::Restore(policy, libraries)),
        1 => Just(Op::FlushScripts),
    ]
}

impl Op {
    fn borrowed(&self) -> CatalogueOp<'_> {
        match self {
            Op::Create(name, options) => CatalogueOp::Create { name, options: *options },
            Op::Alter(name, change) => CatalogueOp::Alter { name, change: *change },
            Op::Drop(name) => CatalogueOp::Drop { name },
            Op::Shard(keyspace) => CatalogueOp::Shard { keyspace: KeyspaceId(*keyspace) },
            Op::RaiseVersion(to) => CatalogueOp::RaiseVersion { to: *to },
            Op::File(keyspace, epoch, act) => CatalogueOp::LinearHash {
                keyspace: KeyspaceId(*keyspace),
                epoch: *epoch,
                act: *act,
            },
            Op::Load(library, replace) => CatalogueOp::Library(LibraryOp::Load {
                library: library.clone(),
                replace: *replace,
            }),
            Op::Delete(name) => CatalogueOp::Library(LibraryOp::Delete { name }),
            Op::FlushLibraries => CatalogueOp::Library(LibraryOp::Flush),
            Op::Restore(policy, libraries) => CatalogueOp::Library(LibraryOp::Restore {
                policy: *policy,
                libraries: libraries.clone(),
            }),
            Op::FlushScripts => CatalogueOp::Library(LibraryOp::FlushScripts),
            Op::Node(node, admin_state, others) => CatalogueOp::Node {
                node: NodeId(*node),
                admin_state: *admin_state,
                among: others.iter().copied().map(NodeId).collect(),
            },
        }
    }
}

fn ops() -> impl Strategy<Value = Op> {
    let name = || "[a-c/]{1,2}";
    let change = (durability(), 0..9u64, 0..11u8);
    let of = (prop::option::of(change.0), prop::option::of(change.1), prop::option::of(change.2));
    let sizes = prop::option::of(prop_oneof![0..9u64, Just(1 << 20)]);
    let flattened = prop::option::of(0..9u64);
    let change = (of, any::<Option<bool>>(), sizes, flattened).prop_map(
        |((durability, retention_ms, replicas), skips_equal, volume_bytes, flattened)| {
            let flattened_at = flattened.map(Timestamp);
            KeyspaceAlteration {
                durability,
                retention_ms,
                replicas,
                skips_equal,
                volume_bytes,
                flattened_at,
            }
        },
    );
    prop_oneof![
        3 => (name(), options()).prop_map(|(name, options)| Op::Create(name, options)),
        1 => (name(), change).prop_map(|(name, change)| Op::Alter(name, change)),
        1 => name().prop_map(Op::Drop),
        1 => (0..9u32).prop_map(Op::Shard),
        1 => (1..4u8).prop_map(|to| Op::RaiseVersion(ClusterVersion::new(to).expect("not 0"))),
        2 => (0..4u32, 0..4u64, act())
            .prop_map(|(keyspace, epoch, act)| Op::File(keyspace, epoch, act)),
        4 => library_ops(),
        2 => (0..6u64, admin_state(), prop::collection::btree_set(0..6u64, 0..6))
            .prop_map(|(node, admin_state, among)| Op::Node(node, admin_state, among)),
    ]
}

proptest! {
    #[test]
    fn what_the_catalogue_said_comes_back_from_bytes(
        error in errors(),
        node: u64,
        admin_state in admin_state(),
        version in version(),
        options in options(),
    ) {
        let mut catalogue = Catalogue::default();
        let made = catalogue.create("k", options).cloned();
        let made = made.map(Subject::Keyspace).map(Box::new);
        let drawn = Subject::Shard(KeyspaceId(node as u32), ShardId(node));
        let stands = Subject::Node(NodeId(node), admin_state);
        let (id, at) = (node >> 8, crate::Timestamp(node));
        let keyspaces = vec![KeyspaceId(1), KeyspaceId(9)];
        let kinds = [crate::LeaseKind::Hold, crate::LeaseKind::Pin];
        let kind = kinds[node as usize % 2];
        let lease = crate::Lease { id, request: node, kind, keyspaces, at, end_ms: id };
        let lease = Subject::Lease(lease);
        let version = Subject::ClusterVersion(version);
        let subjects = [stands, drawn, version, Subject::Libraries, lease];
        let subjects = subjects.map(|subject| Ok(Box::new(subject)));
        for said in [made, Err(error)].into_iter().chain(subjects) {
            let mut bytes = Vec::new();
            Subject::encode_result(&said, &mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Subject::decode_result(&mut reader), Ok(said));
            prop_assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn any_ops_keep_the_invariants_and_come_back_from_bytes(
        ops in prop::collection::vec(ops(), 0..40),
        key: Vec<u8>,
    ) {
        let mut catalogue = Catalogue::default();
        let mut given = BTreeSet::new();
        for op in &ops {
            let mut bytes = Vec::new();
            op.borrowed().encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            let read = CatalogueOp::decode(&mut reader);
            prop_assert_eq!(read, Ok(op.borrowed()));
            prop_assert_eq!(reader.end(), Ok(()));
            let before = catalogue.clone();
            match catalogue.apply(&op.borrowed()) {
                Err(_) => prop_assert_eq!(&catalogue, &before),
                Ok(Subject::Keyspace(keyspace)) if matches!(op, Op::Create(..)) => {
                    prop_assert!(keyspace.shards.iter().all(|shard| given.insert(*shard)));
                }
                Ok(Subject::Node(node, admin_state)) => {
                    prop_assert_eq!(catalogue.admin_state(node), admin_state);
                }
                Ok(Subject::Shard(_, shard)) => prop_assert!(given.insert(shard)),
                Ok(Subject::ClusterVersion(version)) => {
                    prop_assert_eq!(catalogue.cluster_version(), version);
                }
                Ok(Subject::Libraries) => {
                    prop_assert!(catalogue.cluster_version() > ClusterVersion::FIRST);
                    let libraries = catalogue.libraries();
                    prop_assert!(libraries.script_epoch() >= before.libraries().script_epoch());
                    for library in libraries.iter() {
                        for function in &library.functions {
                            let found = libraries.function(&function.name);
                            prop_assert_eq!(found, Some((library, function)));
                        }
                    }
                }
                Ok(Subject::Lease(_)) => unreachable!("none of the ops is about leases"),
                Ok(Subject::Keyspace(keyspace)) => {
                    let is_one = keyspace.options.placement == Placement::LinearHash;
                    prop_assert_eq!(keyspace.linear_hash_table.is_some(), is_one);
                }
            }
            let rise = catalogue.cluster_version().number() - before.cluster_version().number();
            prop_assert!(rise == 0 || rise == 1 && matches!(op, Op::RaiseVersion(_)));
            let stays = before.admin_states().removed();
            for node in stays {
                prop_assert_eq!(catalogue.admin_state(node), AdminState::Removed);
            }
        }
        for keyspace in catalogue.iter() {
            let mut bytes = Vec::new();
            keyspace.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Keyspace::decode(&mut reader), Ok(keyspace.clone()));
            prop_assert_eq!(reader.end(), Ok(()));
            let KeyspaceOptions { replicas, durability, .. } = keyspace.options;
            prop_assert!([1, 3, 5, 7, 9].contains(&replicas));
            prop_assert!(replicas == 1 || durability == Durability::Sync);
            prop_assert_eq!(catalogue.by_id(keyspace.id), Some(keyspace));
            let position = keyspace.options.placement.position(keyspace.id, &key);
            let owners: Vec<_> =
                keyspace.tiles().filter(|(_, arc)| arc.contains(&position)).collect();
            prop_assert_eq!(owners.len(), 1);
            prop_assert_eq!(owners[0].0, keyspace.shard_of(&key));
        }
        let bytes = encoded(&catalogue);
        prop_assert_eq!(Catalogue::decode(&mut Reader::new(&bytes)), Ok(catalogue));
    }

    #[test]
    fn errors_come_back_from_bytes(error in errors(), at: prop::sample::Index, byte: u8) {
        let mut bytes = Vec::new();
        error.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(CatalogueError::decode(&mut reader), Ok(error));
        prop_assert_eq!(reader.end(), Ok(()));
        let index = at.index(bytes.len());
        bytes[index] = byte;
        let mut reader = Reader::new(&bytes);
        if let Ok(read) = CatalogueError::decode(&mut reader) {
            let mut again = Vec::new();
            read.encode(&mut again);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_read_one_way(
        ops in prop::collection::vec(ops(), 0..10),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut catalogue = Catalogue::default();
        for op in &ops {
            let _ = catalogue.apply(&op.borrowed());
            let mut bytes = Vec::new();
            op.borrowed().encode(&mut bytes);
            let index = at.index(bytes.len());
            bytes[index] = byte;
            let mut reader = Reader::new(&bytes);
            if let Ok(read) = CatalogueOp::decode(&mut reader) {
                let mut again = Vec::new();
                read.encode(&mut again);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
            }
        }
        let mut bytes = encoded(&catalogue);
        let index = at.index(bytes.len());
        bytes[index] = byte;
        let mut reader = Reader::new(&bytes);
        if let Ok(read) = Catalogue::decode(&mut reader) {
            prop_assert_eq!(&encoded(&read)[..], &bytes[..bytes.len() - reader.rest().len()]);
        }
    }
}

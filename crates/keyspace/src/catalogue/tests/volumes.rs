//! Volumes and their clones.

use super::*;
use crate::timestamp::Timestamp;

fn ms(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn volume(origin: VolumeOrigin) -> KeyspaceOptions {
    let volume = VolumeOptions { bytes: 1 << 20, block_bytes: 4096, is_shared: false, origin };
    let placement = Placement::LinearHash;
    KeyspaceOptions { placement, volume: Some(volume), ..KeyspaceOptions::default() }
}

fn clone_of(source: KeyspaceId, at: u64) -> KeyspaceOptions {
    volume(VolumeOrigin::Clone { source, at: ms(at) })
}

/// A catalogue with a volume, and its id.
fn with_volume() -> (Catalogue, KeyspaceId) {
    let mut catalogue = Catalogue::default();
    catalogue.raise_version(Feature::Volumes.since()).unwrap();
    let id = catalogue.create("disk", volume(VolumeOrigin::Empty)).unwrap().id;
    (catalogue, id)
}

fn flatten(at: u64) -> KeyspaceAlteration {
    KeyspaceAlteration { flattened_at: Some(ms(at)), ..KeyspaceAlteration::default() }
}

#[test]
fn source_stays_as_long_as_its_clones() {
    let (mut catalogue, disk) = with_volume();
    let copy = catalogue.create("copy", clone_of(disk, 5)).unwrap();
    assert_eq!(copy.source(), Some((disk, ms(5))));
    catalogue.create("other", clone_of(disk, 7)).unwrap();
    let clones: Vec<_> = catalogue.clones(disk).map(|(one, at)| (&*one.name, at)).collect();
    assert_eq!(clones, [("copy", ms(5)), ("other", ms(7))]);
    let why = catalogue.drop("disk").unwrap_err();
    assert_eq!(
        why.to_string(),
        "volume 'disk' is the source of clones: copy, other; flatten or delete them first"
    );
    catalogue.drop("copy").unwrap();
    assert!(catalogue.drop("disk").is_err(), "there is another clone");
    assert_eq!(Catalogue::decode(&mut Reader::new(&encoded(&catalogue))), Ok(catalogue.clone()));

    // One that was flattened needs no source.
    catalogue.alter("other", flatten(9)).unwrap();
    let other = catalogue.get("other").unwrap().options.volume.unwrap();
    assert_eq!((other.source(), other.readable_since()), (None, ms(9)));
    assert!(other.marks_zeroes(), "who does not know of it yet must not look at the source");
    catalogue.drop("disk").unwrap();
    assert_eq!(Catalogue::decode(&mut Reader::new(&encoded(&catalogue))), Ok(catalogue.clone()));
    let again = catalogue.alter("other", flatten(11)).unwrap_err();
    assert_eq!(again, CatalogueError::NotClone { name: "other".into() });
}

#[test]
fn what_cannot_be_cloned_is_refused_with_the_reason() {
    let (mut catalogue, disk) = with_volume();
    let keys = catalogue.create("keys", KeyspaceOptions::default()).unwrap().id;
    let refused = |catalogue: &mut Catalogue, options: KeyspaceOptions| {
        let before = catalogue.clone();
        let error = catalogue.create("copy", options).unwrap_err();
        assert_eq!(*catalogue, before);
        match error {
            CatalogueError::NoClone { why, .. } => why,
            other => panic!("{other}"),
        }
    };
    for none in [KeyspaceId(77), keys] {
        assert_eq!(refused(&mut catalogue, clone_of(none, 1)), NoCloneReason::NoVolume);
    }
    let since = ms(1);
    let born_flat = volume(VolumeOrigin::Flattened { since });
    assert_eq!(refused(&mut catalogue, born_flat), NoCloneReason::NoVolume);
    let mut larger = clone_of(disk, 1);
    larger.volume.as_mut().unwrap().block_bytes = 8192;
    assert_eq!(refused(&mut catalogue, larger), NoCloneReason::OtherBlocks);

    // Each of the one before.
    let mut last = disk;
    for depth in 2..=CLONE_DEPTH_MAX {
        last = catalogue.create(&format!("depth-{depth}"), clone_of(last, 1)).unwrap().id;
    }
    assert_eq!(refused(&mut catalogue, clone_of(last, 1)), NoCloneReason::TooDeep);
    let made = catalogue.clones(disk).count();
    for number in made..CLONES_MAX {
        catalogue.create(&format!("n{number}"), clone_of(disk, 1)).unwrap();
    }
    assert_eq!(refused(&mut catalogue, clone_of(disk, 1)), NoCloneReason::TooMany);
    let why = catalogue.drop("disk").unwrap_err().to_string();
    assert!(why.contains(" and 56 more;"), "{why}");

    // The first of the chain reads its source, and so does the second through it.
    let refused = catalogue.alter("depth-2", flatten(3)).unwrap_err();
    assert!(matches!(refused, CatalogueError::HasClones { .. }), "{refused}");
    // Clones of times at which it had all are no hindrance, and earlier ones are not made.
    catalogue.drop("depth-4").unwrap();
    catalogue.drop("depth-3").unwrap();
    catalogue.alter("depth-2", flatten(3)).unwrap();
    let flat = catalogue.get("depth-2").unwrap().id;
    let (at, safe_point) = (ms(2), ms(3));
    let early = catalogue.create("early", clone_of(flat, 2)).unwrap_err();
    assert_eq!(early, CatalogueError::BelowSafePoint { at, safe_point });
    catalogue.create("late", clone_of(flat, 3)).unwrap();
}

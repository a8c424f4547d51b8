//! Libraries of functions in the catalogue.

use super::*;

fn function(name: &str) -> Function {
    Function { name: name.into(), flags: FunctionFlags::default(), description: None }
}

fn library(name: &str, functions: &[&str]) -> Library {
    let functions = functions.iter().map(|name| function(name)).collect();
    Library { name: name.into(), code: Box::from(*b"return"), functions }
}

fn load(library: Library, replace: bool) -> CatalogueOp<'static> {
    CatalogueOp::Library(LibraryOp::Load { library, replace })
}

fn restore(policy: RestorePolicy, libraries: &[Library]) -> CatalogueOp<'static> {
    CatalogueOp::Library(LibraryOp::Restore { policy, libraries: libraries.to_vec() })
}

fn of_version_2() -> Catalogue {
    let mut catalogue = Catalogue::default();
    catalogue.raise_version(ClusterVersion::new(2).unwrap()).unwrap();
    catalogue
}

fn names(catalogue: &Catalogue) -> Vec<&str> {
    catalogue.libraries().iter().map(|library| &*library.name).collect()
}

#[test]
fn libraries_need_cluster_version_2() {
    let mut catalogue = Catalogue::default();
    let op = load(library("a", &["f"]), false);
    let (version, needs) = (ClusterVersion::FIRST, ClusterVersion::new(2).unwrap());
    assert_eq!(op.since(), needs);
    assert_eq!(catalogue.apply(&op), Err(CatalogueError::VersionTooLow { version, needs }));
    assert_eq!(encoded(&catalogue), b"\x02\x01\x01\x00");
}

#[test]
fn names_of_functions_are_unique_without_case() {
    let mut catalogue = of_version_2();
    assert_eq!(catalogue.apply(&load(library("a", &["F", "f"]), false)), Ok(Subject::Libraries));
    let exists = Err(CatalogueError::LibraryExists { name: "a".into() });
    assert_eq!(catalogue.apply(&load(library("a", &["g"]), false)), exists);
    let before = catalogue.clone();
    let taken = Err(CatalogueError::FunctionExists { name: "f".into() });
    assert_eq!(catalogue.apply(&load(library("b", &["e", "f"]), false)), taken);
    assert_eq!(catalogue, before);
    assert_eq!(catalogue.apply(&load(library("A", &["g"]), false)), Ok(Subject::Libraries));
    let found = |name| catalogue.libraries().function(name).map(|(_, f)| f.name.to_string());
    assert_eq!(
        ["f", "F", "G", "h"].map(found),
        ["f", "F", "g", ""].map(|name: &str| { (!name.is_empty()).then(|| name.to_owned()) })
    );
}

#[test]
fn a_replaced_library_leaves_its_functions_to_others() {
    let mut catalogue = of_version_2();
    catalogue.apply(&load(library("a", &["f", "g"]), true)).unwrap();
    catalogue.apply(&load(library("a", &["f"]), true)).unwrap();
    catalogue.apply(&load(library("b", &["g"]), true)).unwrap();
    let delete = CatalogueOp::Library(LibraryOp::Delete { name: "a" });
    assert_eq!(catalogue.apply(&delete), Ok(Subject::Libraries));
    let refused = Err(CatalogueError::NoLibrary { name: "a".into() });
    assert_eq!(catalogue.apply(&delete), refused);
    assert!(catalogue.libraries().function("f").is_none());
    assert_eq!(names(&catalogue), ["b"]);
}

#[test]
fn a_restore_is_done_as_a_whole_or_not() {
    let mut catalogue = of_version_2();
    catalogue.apply(&load(library("a", &["f"]), false)).unwrap();
    catalogue.apply(&load(library("c", &["h"]), false)).unwrap();
    let before = catalogue.clone();
    let both = [library("a", &["g"]), library("b", &["f"])];
    let exists = Err(CatalogueError::LibraryExists { name: "a".into() });
    assert_eq!(catalogue.apply(&restore(RestorePolicy::Append, &both)), exists);
    let taken = Err(CatalogueError::FunctionExists { name: "h".into() });
    let third = [library("a", &["g"]), library("b", &["h"])];
    assert_eq!(catalogue.apply(&restore(RestorePolicy::Replace, &third)), taken);
    assert_eq!(catalogue, before);
    catalogue.apply(&restore(RestorePolicy::Replace, &both)).unwrap();
    assert_eq!(names(&catalogue), ["a", "b", "c"]);
    assert_eq!(&*catalogue.libraries().function("f").unwrap().0.name, "b");
    catalogue.apply(&restore(RestorePolicy::Flush, &both[1..])).unwrap();
    assert_eq!(names(&catalogue), ["b"]);
    catalogue.apply(&CatalogueOp::Library(LibraryOp::Flush)).unwrap();
    assert_eq!(encoded(&catalogue), encoded(&of_version_2()), "as before libraries");
}

#[test]
fn libraries_are_bounded() {
    let sized = |name: &str, bytes: usize| {
        let mut library = library(name, &[name]);
        library.code = vec![b' '; bytes - (library.bytes() - library.code.len())].into();
        library
    };
    let mut catalogue = of_version_2();
    let all = load(sized("a", LIBRARIES_BYTES_MAX), false);
    assert_eq!(all.check_proposal(), Ok(()));
    catalogue.apply(&all).unwrap();
    let bytes = LIBRARIES_BYTES_MAX as u64;
    let too_large = |more| Err(CatalogueError::LibrariesTooLarge { bytes: bytes + more });
    assert_eq!(
        catalogue.apply(&load(sized("b", 10), false)),
        too_large(10).map(|()| unreachable!())
    );
    let one_more = load(sized("a", LIBRARIES_BYTES_MAX + 1), true);
    assert_eq!(one_more.check_proposal(), too_large(1));
    assert!(catalogue.apply(&one_more).is_err());
    assert_eq!(Catalogue::decode(&mut Reader::new(&encoded(&catalogue))), Ok(catalogue));
}

/// Without libraries, and before scripts were forgotten, the bytes are those of version 4.
#[test]
fn bytes_of_libraries() {
    let mut catalogue = of_version_2();
    assert_eq!(encoded(&catalogue), b"\x04\x01\x01\x00\x00\x02");
    let mut a = library("a", &["f", "g"]);
    a.functions[0].flags = FunctionFlags::NO_WRITES.with(FunctionFlags::ALLOW_CROSS_SLOT_KEYS);
    a.functions[1].description = Some(Box::from(*b"de"));
    let op = load(a, true);
    let mut bytes = Vec::new();
    op.encode(&mut bytes);
    let of_library = b"\x01a\x06return\x02\x01f\x11\x00\x01g\x00\x01\x02de";
    assert_eq!(bytes, [&b"\x08\x01\x01"[..], of_library].concat());
    catalogue.apply(&op).unwrap();
    let version_5 = b"\x05\x01\x01\x00\x00\x02\x00\x01";
    assert_eq!(encoded(&catalogue), [&version_5[..], of_library].concat());
    let ops = [
        (LibraryOp::Delete { name: "a" }, &b"\x08\x02\x01a"[..]),
        (LibraryOp::Flush, b"\x08\x03"),
        (
            LibraryOp::Restore { policy: RestorePolicy::Flush, libraries: vec![] },
            b"\x08\x04\x02\x00",
        ),
        (LibraryOp::FlushScripts, b"\x08\x05"),
    ];
    for (op, expected) in ops {
        let mut bytes = Vec::new();
        let op = CatalogueOp::Library(op);
        op.encode(&mut bytes);
        assert_eq!(bytes, expected);
        catalogue.apply(&op).ok();
    }
    assert_eq!(encoded(&catalogue), b"\x05\x01\x01\x00\x00\x02\x01\x00", "epoch 1, no library");
    assert_eq!(catalogue.libraries().script_epoch(), 1);
}

//! Changes of libraries in mode `cluster`, whose clients send each change to every primary.
//!
//! In a Redis Cluster each primary has libraries of its own. Here the first node that a client asks
//! changes those of all, and the others find the change done. Each of them answers what such a
//! primary would: it takes the change once, and the same change again is an error.
//!
//! ```text
//!   FUNCTION LOAD ──► A: loads it, for all nodes
//!                └──► B: it is there with this code, and was not loaded through B: done
//!   FUNCTION LOAD ──► A, B: loaded through this node before: Library 'lib' already exists
//! ```
//!
//! A node forgets what was asked of it when it stops: then it takes one such change more.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | names of libraries that went through others | [`DELETED_MAX`] | the first by name is forgotten: to delete it is an error |

use std::collections::BTreeSet;
use std::sync::Arc;

use keyspace::CatalogueError;
use keyspace::catalogue::{Libraries, Library, LibraryOp, RestorePolicy};
use node::executor::Answer;

use super::libraries::{NotChanged, follow, not_changed_text, not_followed, propose};
use crate::runtime::NodeRuntime;

/// Names of libraries that are remembered because others have deleted them.
const DELETED_MAX: usize = 1024;

/// What clients have asked of this node.
#[derive(Debug, Default)]
pub(super) struct AskedHere {
    /// Libraries that are there, and were loaded through this node.
    loaded: BTreeSet<Box<str>>,
    /// Libraries that were there, and were not deleted through this node.
    deleted_elsewhere: BTreeSet<Box<str>>,
}

/// A change, as far as it may be done already.
#[derive(Debug, Default)]
struct Change {
    flushes: bool,
    deletes: Option<Box<str>>,
    loads: Vec<Library>,
}

impl Change {
    fn of(op: &LibraryOp<'_>) -> Self {
        let none = Self::default();
        match op {
            LibraryOp::Load { library, .. } => Self { loads: vec![library.clone()], ..none },
            LibraryOp::Delete { name } => Self { deletes: Some((*name).into()), ..none },
            LibraryOp::Flush => Self { flushes: true, ..none },
            LibraryOp::Restore { policy, libraries } => {
                let flushes = *policy == RestorePolicy::Flush;
                Self { flushes, loads: libraries.clone(), ..none }
            }
            LibraryOp::FlushScripts => none,
        }
    }
}

impl AskedHere {
    /// This node follows the catalogue.
    pub fn follow(&mut self, before: &Libraries, now: &Libraries) {
        for library in before.iter() {
            let there = now.get(&library.name);
            if there.is_some_and(|there| Arc::ptr_eq(there, library) || **there == **library) {
                continue;
            }
            self.loaded.remove(&library.name);
            if there.is_none() {
                self.deleted_elsewhere.insert(library.name.clone());
            }
        }
        self.deleted_elsewhere.retain(|name| now.get(name).is_none());
        while self.deleted_elsewhere.len() > DELETED_MAX {
            self.deleted_elsewhere.pop_first();
        }
    }

    /// A change was done through this node.
    fn note(&mut self, change: &Change) {
        if change.flushes {
            self.loaded.clear();
            self.deleted_elsewhere.clear();
        }
        if let Some(name) = &change.deletes {
            self.loaded.remove(name);
            self.deleted_elsewhere.remove(name);
        }
        self.loaded.extend(change.loads.iter().map(|library| library.name.clone()));
    }

    /// The catalogue has refused a change. Whether that is because another node was asked for the
    /// same, and this one not yet; then it counts as done here.
    fn takes(&mut self, change: &Change, now: &Libraries) -> bool {
        let is_new = |library: &Library| {
            let is_there = now.get(&library.name).is_some_and(|there| **there == *library);
            is_there && !self.loaded.contains(&library.name)
        };
        let is_done = match &change.deletes {
            Some(name) => self.deleted_elsewhere.contains(name),
            None => change.loads.iter().all(is_new),
        };
        if is_done {
            self.note(change);
        }
        is_done
    }
}

/// Whether what the catalogue has refused may be as the client wants it.
fn may_be_done(why: &NotChanged) -> bool {
    let error = why.error.as_ref();
    matches!(error, Some(CatalogueError::NoLibrary { .. } | CatalogueError::LibraryExists { .. }))
}

/// Changes the libraries; `done` gets the error's text, if they were not changed, and are not as
/// the client wants them.
pub(super) fn change(
    runtime: &Arc<NodeRuntime>,
    op: LibraryOp<'_>,
    done: impl FnOnce(Result<(), String>) + Send + 'static,
) {
    let (change, again) = (Change::of(&op), runtime.clone());
    propose(runtime, op, move |result| {
        let libraries = &again.scripts.libraries;
        let text = match result {
            Ok(()) => {
                libraries.asked_here.lock().note(&change);
                return done(Ok(()));
            }
            Err(why) if !may_be_done(&why) => return done(Err(why.text)),
            Err(why) => why.text,
        };
        // It may not know yet what was changed through another node.
        let runtime = again.clone();
        let callback = move |answer| {
            let libraries = &runtime.scripts.libraries;
            done(match answer {
                Answer::NotDone { why, .. } => Err(not_changed_text(not_followed(why)).into()),
                _ if libraries.asked_here.lock().takes(&change, &libraries.all()) => Ok(()),
                _ => Err(text),
            });
        };
        follow(&again, Box::new(callback));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyspace::catalogue::{Catalogue, Function, FunctionFlags};
    use keyspace::{CatalogueOp, ClusterVersion};

    /// The catalogue, and two nodes that follow it.
    struct Cluster {
        catalogue: Catalogue,
        nodes: [AskedHere; 2],
    }

    impl Cluster {
        fn new() -> Self {
            let mut catalogue = Catalogue::default();
            let to = ClusterVersion::new(2).expect("it is known");
            catalogue.apply(&CatalogueOp::RaiseVersion { to }).expect("it rises");
            Self { catalogue, nodes: Default::default() }
        }

        /// Whether a change through this node is done.
        fn ask(&mut self, node: usize, op: LibraryOp<'_>) -> bool {
            let (change, before) = (Change::of(&op), self.catalogue.libraries().clone());
            let applied = self.catalogue.apply(&CatalogueOp::Library(op));
            let now = self.catalogue.libraries();
            self.nodes.iter_mut().for_each(|node| node.follow(&before, now));
            match applied {
                Ok(_) => {
                    self.nodes[node].note(&change);
                    true
                }
                Err(_) => self.nodes[node].takes(&change, now),
            }
        }

        /// The same through both.
        fn ask_all(&mut self, op: &LibraryOp<'_>) -> [bool; 2] {
            [0, 1].map(|node| self.ask(node, op.clone()))
        }
    }

    fn library(name: &str, code: &[u8]) -> Library {
        let (flags, description) = (FunctionFlags::default(), None);
        let function = Function { name: format!("f{name}").into(), flags, description };
        Library { name: name.into(), code: code.into(), functions: vec![function] }
    }

    fn load(library: Library) -> LibraryOp<'static> {
        LibraryOp::Load { library, replace: false }
    }

    #[test]
    fn each_node_takes_a_change_once() {
        let mut cluster = Cluster::new();
        let (one, other) = (load(library("a", b"1")), load(library("a", b"2")));
        let delete = LibraryOp::Delete { name: "a" };
        for _ in 0..2 {
            assert_eq!(cluster.ask_all(&delete), [false; 2], "it is not there");
            assert_eq!(cluster.ask_all(&one), [true; 2]);
            assert_eq!(cluster.ask_all(&one), [false; 2], "it is there");
            assert_eq!(cluster.ask_all(&other), [false; 2]);
            assert_eq!(cluster.ask_all(&delete), [true; 2]);
        }
        assert!(cluster.ask(0, one.clone()));
        assert_eq!(cluster.ask_all(&other), [false; 2], "it has other code");
        let replace = LibraryOp::Load { library: library("a", b"2"), replace: true };
        assert_eq!(cluster.ask_all(&replace), [true; 2]);
        assert_eq!(cluster.ask_all(&other), [false; 2]);
        assert_eq!(cluster.ask_all(&LibraryOp::Flush), [true; 2]);
        assert_eq!(cluster.ask_all(&delete), [false; 2]);
        assert_eq!(cluster.ask_all(&one), [true; 2]);
    }

    #[test]
    fn libraries_are_restored_by_each_node_once() {
        let mut cluster = Cluster::new();
        let libraries = vec![library("a", b"1"), library("b", b"1")];
        let restore = |policy| LibraryOp::Restore { policy, libraries: libraries.clone() };
        assert_eq!(cluster.ask_all(&restore(RestorePolicy::Append)), [true; 2]);
        assert_eq!(cluster.ask_all(&restore(RestorePolicy::Append)), [false; 2]);
        assert_eq!(cluster.ask_all(&restore(RestorePolicy::Flush)), [true; 2]);
        assert_eq!(cluster.ask_all(&restore(RestorePolicy::Replace)), [true; 2]);
        assert_eq!(cluster.ask_all(&load(library("b", b"1"))), [false; 2]);
    }

    #[test]
    fn names_of_libraries_that_are_gone_are_bounded() {
        let mut cluster = Cluster::new();
        for number in 0..DELETED_MAX + 10 {
            let name = format!("n{number}");
            assert!(cluster.ask(0, load(library(&name, b"1"))));
            assert!(cluster.ask(0, LibraryOp::Delete { name: &name }));
        }
        assert_eq!(cluster.nodes[0].deleted_elsewhere.len(), 0);
        assert_eq!(cluster.nodes[1].deleted_elsewhere.len(), DELETED_MAX);
    }
}

//! All kinds of problems: how the `type` of each ends, and its status.
//!
//! Most stand in the table of the node's errors. `OTHERS` are those that HTTP itself finds, or a
//! simulation behind it. A test looks for kinds in the sources; builds with assertions look at the
//! status as well.

use axum::http::StatusCode as S;

use super::table;

/// Kinds that are no errors of the node.
const OTHERS: [(&str, S); 29] = [
    ("no-password", S::UNAUTHORIZED),
    ("too-many-passwords", S::TOO_MANY_REQUESTS),
    ("bad-request", S::BAD_REQUEST),
    ("foreign-origin", S::FORBIDDEN),
    ("unknown-path", S::NOT_FOUND),
    ("nil", S::NOT_FOUND),
    ("nil-yet", S::NOT_FOUND),
    ("unknown-method", S::METHOD_NOT_ALLOWED),
    ("body-timeout", S::REQUEST_TIMEOUT),
    ("condition-failed", S::PRECONDITION_FAILED),
    ("body-too-long", S::PAYLOAD_TOO_LARGE),
    ("uri-too-long", S::URI_TOO_LONG),
    ("not-json", S::UNSUPPORTED_MEDIA_TYPE),
    ("foreign-host", S::FORBIDDEN),
    ("head-too-long", S::REQUEST_HEADER_FIELDS_TOO_LARGE),
    ("busy", S::SERVICE_UNAVAILABLE),
    ("no-answer", S::SERVICE_UNAVAILABLE),
    ("not-ready", S::SERVICE_UNAVAILABLE),
    ("loading", S::SERVICE_UNAVAILABLE),
    ("stopping", S::SERVICE_UNAVAILABLE),
    ("no-dev", S::NOT_FOUND),
    ("bad-parameter", S::BAD_REQUEST),
    ("wrong-state", S::CONFLICT),
    ("too-many-nodes", S::CONFLICT),
    ("port-in-use", S::CONFLICT),
    ("not-started", S::INTERNAL_SERVER_ERROR),
    ("no-supervisor", S::SERVICE_UNAVAILABLE),
    ("no-simulated-node", S::NOT_FOUND),
    ("sim-refused", S::CONFLICT),
];

/// The status of problems of a kind, if there is such a kind.
pub fn status_of(kind: &str) -> Option<S> {
    let rows = table::ALL.iter().map(|row| (row.slug, row.status));
    rows.chain(OTHERS).find(|(one, _)| *one == kind).map(|(_, status)| status)
}

/// Whether problems of a kind may have a status.
pub(super) fn has(kind: &str, status: S) -> bool {
    // The libraries refuse bad requests with other statuses, too.
    status_of(kind) == Some(status) || kind == "bad-request"
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Kinds that are written as such where problems are made, in files below a folder.
    fn kinds_in(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                kinds_in(&path, found);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let calls = text.split("Problem::new(").skip(1);
            let kinds = calls.filter_map(|call| call.split(',').nth(1)?.trim().strip_prefix('"'));
            found.extend(kinds.map(|kind| kind.trim_end_matches('"').to_owned()));
        }
    }

    #[test]
    fn every_problem_has_a_kind() {
        let mut kinds = Vec::new();
        kinds_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http"), &mut kinds);
        assert!(kinds.len() > 15, "{kinds:?}");
        for kind in kinds {
            assert!(status_of(&kind).is_some(), "{kind} is missing here");
        }
    }

    #[test]
    fn a_kind_has_one_status() {
        for row in table::ALL {
            assert_eq!(status_of(row.slug), Some(row.status), "{}", row.slug);
        }
        for (kind, status) in OTHERS {
            assert_eq!(status_of(kind), Some(status), "{kind}");
        }
        assert_eq!(status_of("nonsense"), None);
        assert!(!has("nil", S::GONE) && !has("nonsense", S::NOT_FOUND));
    }
}

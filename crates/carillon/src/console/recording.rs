//! A recording that the page shows as soon as it is opened: `--recording`.
//!
//! The page judges it, and says what is wrong with it; here only what is surely no recording is
//! refused, before anything is served.

use std::path::Path;
use std::sync::Arc;

/// The longest recording that a page takes (`RECORDING_BYTES_MAX` of the console).
const BYTES_MAX: u64 = 256 << 20;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The file's name.
    pub name: String,
    /// What is in it.
    pub bytes: Arc<[u8]>,
}

impl Recording {
    /// Reads one.
    ///
    /// # Errors
    /// Why it is none.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let cannot = |why: std::io::Error| format!("cannot read {shown}: {why}");
        let length = std::fs::metadata(path).map_err(cannot)?.len();
        if length > BYTES_MAX {
            return Err(format!(
                "{shown} has {length} bytes, and a page shows at most {BYTES_MAX}: record a \
                 shorter span, or play it as text with `carillon replay`"
            ));
        }
        let bytes = std::fs::read(path).map_err(cannot)?;
        // A page's file is one object, one of events has one in each line.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(format!("{shown} is no recording: it does not begin with a JSON object"));
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { name, bytes: bytes.into() })
    }
}

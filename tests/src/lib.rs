//! What every suite shares: finding third-party test data, and saying so when it is absent.
//!
//! Vectors and models that are not ours to publish live beside the checkout in `../shared`. A
//! stranger's clone has none of them: such a test then says by name that it was skipped and passes.
//! With `LASTBIT_REQUIRE_SHARED=1` a missing file fails the test instead, so continuous integration
//! cannot skip silently.

pub mod fuzz;
pub mod http;

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The workspace root of this checkout.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests package lies in the workspace root").to_path_buf()
}

/// The path of `../shared/<what>` beside the checkout, or `None` when it is not there.
///
/// When it is absent the calling test is named on standard error (bypassing the test harness's
/// capture, so that a plain `cargo test` shows it).
///
/// # Panics
/// When the data is absent and `LASTBIT_REQUIRE_SHARED` is `1`.
pub fn shared(what: &str) -> Option<PathBuf> {
    let path = workspace_root().join("../shared").join(what);
    if path.exists() {
        return Some(path);
    }
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unnamed test");
    assert!(
        std::env::var_os("LASTBIT_REQUIRE_SHARED").is_none_or(|v| v != "1"),
        "{test}: ../shared/{what} is required here and missing"
    );
    // The harness captures `eprintln!`; a direct write is seen.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: needs ../shared/{what}");
    None
}

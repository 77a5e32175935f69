//! Threads that launches share.
//!
//! A model's step is many short launches; starting threads for each would cost more than some of them take. So a pool
//! of each size asked for is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

static POOLS: Mutex<BTreeMap<usize, Arc<ThreadPool>>> = Mutex::new(BTreeMap::new());

/// Runs `work` once on each of `threads` threads and waits for all.
///
/// One thread is the caller's own. Where the system refuses to start threads, the caller's own does everything: the
/// result is the same, later.
pub(super) fn run(threads: usize, work: impl Fn() + Sync) {
    match if threads > 1 { pool(threads) } else { None } {
        Some(pool) => {
            pool.broadcast(|_| work());
        }
        None => work(),
    }
}

fn pool(threads: usize) -> Option<Arc<ThreadPool>> {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = pools.get(&threads) {
        return Some(pool.clone());
    }
    let name = |i| format!("lastbit-exec-{i}");
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build().ok()?);
    pools.insert(threads, pool.clone());
    Some(pool)
}

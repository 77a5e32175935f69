//! Threads that launches and matrix products share.
//!
//! A model's step is many short launches; starting threads for each would cost more than some of them take. So a pool
//! of each size asked for is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

static POOLS: Mutex<BTreeMap<usize, Arc<ThreadPool>>> = Mutex::new(BTreeMap::new());

/// Runs `work` once on each of `threads` threads, the caller's among them, and waits for all.
///
/// The caller starts at once and the others join as they wake: a short launch is not held up by them. Where the system
/// refuses to start threads, the caller does everything: the result is the same, later.
pub(crate) fn run(threads: usize, work: impl Fn() + Sync) {
    let helpers = threads - 1;
    match if helpers > 0 { pool(helpers) } else { None } {
        Some(pool) => pool.in_place_scope(|scope| {
            for _ in 0..helpers {
                scope.spawn(|_| work());
            }
            work();
        }),
        None => work(),
    }
}

/// Does `work` on every item of `items`, on `threads` threads: each takes the next item as it becomes free. What the items lead to must not depend
/// on their order.
///
/// # Panics
/// Where `work` does.
pub fn share<T: Send>(threads: usize, items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    if threads <= 1 {
        return items.for_each(work);
    }
    let items = Mutex::new(items);
    run(threads, || {
        loop {
            // The guard must not live through the work.
            let item = items.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(item) = item else { break };
            work(item);
        }
    });
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

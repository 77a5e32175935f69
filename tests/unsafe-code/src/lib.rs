//! The files of `engine` that hold `unsafe` code, compiled by themselves: `device::cuda`'s driver and context, and `model::mapped`.
//!
//! They are the engine's own files, not copies. Here they depend on little, so that continuous integration can run every `unsafe` block of
//! them under the address sanitizer in seconds (`.ci/run`); the driver is the loopback driver, in a process of its own.
#![allow(dead_code, reason = "the engine uses what the tests here do not")]
#![allow(unsafe_code, reason = "the files under test have it, each use with its reason")]

#[path = "../../../engine/src/device/cuda/context.rs"]
mod context;
#[path = "../../../engine/src/device/cuda/library.rs"]
mod library;
#[path = "../../../engine/src/model/mapped.rs"]
mod mapped;

/// What `mapped` takes from its neighbour in the engine.
mod files {
    pub const MAX_WEIGHTS: u64 = 1 << 30;
}

#[cfg(test)]
mod tests;

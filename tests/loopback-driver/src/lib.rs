//! A CUDA driver that is none: it exports the functions of the driver interface that lastbit calls, and runs launches in lastbit's own
//! emulator. Tests put it where a driver would be found, so that the code that calls drivers runs on machines without a GPU.
//!
//! It shows that arguments are packed as the interface wants, that handles and memory live as long as they must, that results are waited
//! for. It shows nothing about hardware, and says so in the name of its device ([`NAME`]).
//!
//! It is as late as a driver may be: what is put on a stream happens when somebody waits for the stream, and a failed kernel spoils the
//! context for good.
//!
//! Two environment variables make it another driver: `LASTBIT_LOOPBACK_SM` (`90`: compute capability 9.0) and `LASTBIT_LOOPBACK_FAULT`
//! (see [`Fault`]).

mod driver;
mod exports;

pub use driver::{Fault, LEFT};

/// What the device is called: nobody shall take it for a GPU.
pub const NAME: &str = "lastbit loopback driver, not a GPU";

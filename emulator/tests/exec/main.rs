//! PTX execution: every instruction, control flow, memory, faults and the checker, against expectations written here.

mod checker;
mod control;
mod device;
mod faults;
mod float;
mod fuzz;
mod integer;
#[path = "../../benches/kernels/mod.rs"]
mod kernels;
mod memory;
mod narrow;
mod warp;
mod whole;

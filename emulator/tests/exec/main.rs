//! PTX execution: every instruction, control flow, memory, faults and the checker, against expectations written here.

mod checker;
mod control;
mod device;
mod faults;
mod float;
mod integer;
mod memory;
mod warp;

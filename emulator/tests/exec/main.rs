//! PTX execution: every instruction, control flow, memory, faults and the checker, against expectations written here.

mod control;
mod device;

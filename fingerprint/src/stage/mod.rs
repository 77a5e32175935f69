//! Stages of probes, P0 to P4 of the method: none needs a reference.

pub mod consistency;
pub mod contract;
pub mod inspect;
pub mod lattice;
pub mod noise;
pub mod surface;

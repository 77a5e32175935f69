//! The kernels against independent models of their order of operations, on the emulated device.

mod assemble;
mod catalogue;
mod text;

//! The kernels against independent models of their order of operations, on the emulated device.

mod arith;
mod assemble;
mod attention;
mod catalogue;
mod data;
mod gemm;
mod native;
mod portable;
mod qkv;
mod rig;
mod rope;
mod rows;
mod sync;
mod text;
mod top2;

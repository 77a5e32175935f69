//! lastbit
fn main() {}

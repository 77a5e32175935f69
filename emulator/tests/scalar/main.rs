//! Scalar arithmetic against independent implementations, against the rules of PTX, and lanes against scalars.

mod apfloat;
mod cases;
mod deep;
mod forms;
mod host;
mod lanes;
mod narrow;
mod rules;
mod softfloat;

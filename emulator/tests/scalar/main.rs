//! Scalar arithmetic against independent implementations, against the rules of PTX, and lanes against scalars.

mod apfloat;
mod cases;
mod host;
mod lanes;
mod rules;
mod softfloat;

//! `fma`.

use super::add::add_unpacked;
use super::float::{Class, Ieee, nan, unpack};
use super::mul::multiply;
use super::{Mods, Unpacked};

/// `a * b + c` with one rounding.
///
/// # Bits
/// The product is exact. `0 * inf` is NaN whatever `c` is. An exactly cancelling sum is `+0` (`-0` toward minus
/// infinity), unless product and addend are zeros of one sign.
#[must_use]
pub fn fma<F: Ieee>(a: F::Bits, b: F::Bits, c: F::Bits, mods: Mods) -> F::Bits {
    let (x, y, z) = (unpack::<F>(a, mods.ftz), unpack::<F>(b, mods.ftz), unpack::<F>(c, mods.ftz));
    let product = Unpacked { sign: x.sign != y.sign, class: multiply(x.class, y.class) };
    if product.class == Class::Nan || z.class == Class::Nan {
        return nan::<F>(&[a, b, c], mods);
    }
    add_unpacked::<F>(product, z, mods)
}

//! What a matrix product refuses.

use crate::Error;
use crate::format::Elem;

/// Checks the container and the length of an operand.
pub(super) fn operand_size(
    operand: &'static str,
    elem: Elem,
    container: u32,
    width: u32,
    rows: usize,
    k: usize,
    found: usize,
) -> Result<(), Error> {
    if container != width {
        let problem = format!("elements of type {elem} come in words of {container} bits, not {width}");
        return Err(Error::GemmOperand { operand, problem });
    }
    if rows.checked_mul(k) != Some(found) {
        let problem = format!("{rows} x {k} elements are needed, {found} were given");
        return Err(Error::GemmOperand { operand, problem });
    }
    Ok(())
}

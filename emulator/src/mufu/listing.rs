//! Functions whose dump does not fit the interpolator: their significands are listed, one for each fraction.

use super::datapath::{Datapath, EX2, RCP, RSQ};
use super::fit::{BINADE, Dump};
use super::{FRACTION, Function, LEADING, Reduced, Unit, evaluate, ex2, rcp, rsq};
use crate::Error;

/// The unit that gives the outputs of `dumps`: the significands of the binades that begin at `starts`, in this order,
/// are the list.
///
/// # Errors
/// [`Error::MufuDump`] if a binade is missing, an output is not a significand of the expected sign and exponent, or
/// another dump of the function does not follow from the listed ones.
pub(super) fn list<const N: usize>(function: Function, dumps: &[Dump], starts: &[u32]) -> Result<Unit<N>, Error> {
    let refuse = |problem| Error::MufuDump { name: function.name().to_owned(), problem };
    let (path, reduce) = parts(function).ok_or_else(|| refuse("only rcp, rsq and ex2 can be listed".to_owned()))?;
    let mut significands = Vec::with_capacity(starts.len() * BINADE);
    for &start in starts {
        let dump = dumps
            .iter()
            .find(|dump| dump.start() == start)
            .ok_or_else(|| refuse(format!("it is listed, but the dump from {start:08x} is missing")))?;
        for (x, y) in dump.samples() {
            let significand = significand(reduce(x), y)
                .ok_or_else(|| refuse(format!("the output {y:08x} for {x:08x} has an unexpected sign or exponent")))?;
            significands.push(significand);
        }
    }
    let unit = Unit::Listed(significands.into());
    for (x, y) in dumps.iter().flat_map(Dump::samples) {
        if evaluate(reduce(x), path, &unit) != y {
            return Err(refuse(format!("the output {y:08x} for {x:08x} does not follow from the listed binades")));
        }
    }
    Ok(unit)
}

type Reduce = fn(u32) -> Result<Reduced, u32>;

fn parts(function: Function) -> Option<(&'static Datapath, Reduce)> {
    match function {
        Function::Rcp => Some((&RCP, rcp::reduce)),
        Function::Rsq => Some((&RSQ, rsq::reduce)),
        Function::Ex2 => Some((&EX2, ex2::reduce)),
        Function::Lg2 | Function::Sin | Function::Cos | Function::Sqrt | Function::Tanh => None,
    }
}

/// The significand in `[2^23, 2^24]` that packs to `y`. Of an operand that needs none, any.
fn significand(reduced: Result<Reduced, u32>, y: u32) -> Option<u32> {
    let Ok(reduced) = reduced else { return Some(LEADING) };
    [y & FRACTION | LEADING, 2 * LEADING].into_iter().find(|&significand| reduced.pack(significand) == y)
}

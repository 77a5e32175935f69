//! Statistics. Every function is exact or seeded: the same data give the same numbers on every platform (`libm`, no host logarithm).

mod change;
mod evidence;
mod interval;
mod mixture;
mod random;
mod twosample;

pub use change::{Change, change_point};
pub use evidence::{E_REJECT, Evidence, benjamini_hochberg, conformal, e_of_p, holm};
pub use interval::{Interval, binomial_above, binomial_two_sided, bootstrap, mean, median, quantile, wilson};
pub use mixture::{Mixture, mixture};
pub use random::Random;
pub use twosample::{Test, Texts, mmd_hamming};

//! One warp-level matrix instruction on registers.

use super::Operation;
use super::fast::Fast;
use super::instruction::{Instruction, Shape, Types};
use super::layout::{LANES, Layout, Register, element};
use crate::Error;
use crate::profile::Profile;
use crate::simd::Level;

/// A warp-level `mma.sync` of one profile, decoded once and executed many times.
///
/// Registers are `[u32; 32]`, one word a lane, in PTX fragment order ([`super::layout`]).
///
/// **Bits.** Every level gives the bits of [`Operation::dot`] for every input, specials included.
#[derive(Clone, Copy, Debug)]
pub struct WarpMma {
    layout: Layout,
    operation: Operation,
    level: Level,
    /// Absent where only the reference covers the instruction.
    pub(super) fast: Option<Fast>,
}

impl WarpMma {
    /// Decodes `mma.sync` of this shape and these types for `profile`.
    ///
    /// # Errors
    /// [`Error::UnsupportedMma`] or [`Error::UnsupportedLayout`], naming the profile and the instruction.
    pub fn new(profile: &Profile, shape: Shape, types: Types, level: Level) -> Result<Self, Error> {
        let instruction = Instruction::mma(shape, types);
        let operation = profile.mma(&instruction)?;
        let layout = Layout::of(&instruction)?;
        Ok(Self { layout, operation, level, fast: Fast::new(&operation, &layout, level) })
    }

    /// The fragment layout, which knows how many registers each operand takes.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The level it runs on.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Fails unless the operands have these many registers.
    ///
    /// # Errors
    /// [`Error::FragmentCount`], naming the first operand that is wrong.
    pub fn check_registers(&self, a: usize, b: usize, c: usize, d: usize) -> Result<(), Error> {
        let Types { c: tc, d: td, .. } = self.layout.types;
        let l = &self.layout;
        let counts = [
            ('A', l.a_registers(), a),
            ('B', l.b_registers(), b),
            ('C', l.cd_registers(tc), c),
            ('D', l.cd_registers(td), d),
        ];
        match counts.into_iter().find(|(_, expected, found)| expected != found) {
            None => Ok(()),
            Some((operand, expected, found)) => {
                let instruction = Instruction::mma(self.layout.shape, self.layout.types).to_string();
                Err(Error::FragmentCount { instruction, operand, expected, found })
            }
        }
    }

    /// `D = A B + C` for one warp.
    ///
    /// # Panics
    /// If an operand has another number of registers than [`WarpMma::check_registers`] admits.
    pub fn run(&self, a: &[&Register], b: &[&Register], c: &[&Register], d: &mut [Register]) {
        if let Err(error) = self.check_registers(a.len(), b.len(), c.len(), d.len()) {
            panic!("{error}");
        }
        match &self.fast {
            Some(fast) => fast.run(a, b, c, d),
            None => self.run_reference(a, b, c, d),
        }
    }

    /// The same by the integer reference, one output at a time: what the fast path is compared with.
    ///
    /// # Panics
    /// As [`WarpMma::run`].
    pub fn run_reference(&self, a: &[&Register], b: &[&Register], c: &[&Register], d: &mut [Register]) {
        let layout = &self.layout;
        let Shape { m, n, k } = layout.shape;
        let (m, n, k) = (m as usize, n as usize, k as usize);
        let parts = layout.parts(layout.types.a);
        // A by rows, B by columns, so that each output reads two runs of K.
        let mut rows = vec![0; layout.matrices * m * k];
        let mut columns = vec![0; layout.matrices * n * k];
        for lane in 0..LANES {
            for part in 0..parts {
                for (r, register) in a.iter().enumerate() {
                    let p = layout.a(r, lane, part);
                    rows[(p.matrix * m + p.row) * k + p.column] = u64::from(element(register[lane], parts, part));
                }
                for (r, register) in b.iter().enumerate() {
                    let p = layout.b(r, lane, part);
                    columns[(p.matrix * n + p.column) * k + p.row] = u64::from(element(register[lane], parts, part));
                }
            }
        }
        let (tc, td) = (layout.types.c, layout.types.d);
        let mut accumulators = vec![0; layout.matrices * m * n];
        for (r, register) in c.iter().enumerate() {
            for (lane, &word) in register.iter().enumerate() {
                for part in 0..layout.parts(tc) {
                    let p = layout.cd(tc, r, lane, part);
                    accumulators[(p.matrix * m + p.row) * n + p.column] = element(word, layout.parts(tc), part);
                }
            }
        }
        for (r, register) in d.iter_mut().enumerate() {
            for (lane, word) in register.iter_mut().enumerate() {
                *word = 0;
                for part in 0..layout.parts(td) {
                    let p = layout.cd(td, r, lane, part);
                    let row = &rows[(p.matrix * m + p.row) * k..][..k];
                    let column = &columns[(p.matrix * n + p.column) * k..][..k];
                    let c = u64::from(accumulators[(p.matrix * m + p.row) * n + p.column]);
                    let out = self.operation.dot(row, column, c) as u32;
                    *word |= out << (32 / layout.parts(td) * part);
                }
            }
        }
    }
}

/// `D = A B + C` for one warp, decoded and executed in one call. Operands are slices of registers; see [`WarpMma`].
///
/// # Errors
/// As [`WarpMma::new`] and [`WarpMma::check_registers`].
///
/// # Examples
/// ```
/// use emulator::{format::Elem, mma, profile::Profile, simd::Level};
/// let hopper = Profile::by_name("sm_90").unwrap();
/// let one = [0x3f80_3f80; 32]; // every element of A and B is 1
/// let mut d = [[0; 32]; 4];
/// let types = mma::Types::new(Elem::Bf16, Elem::F32);
/// mma::warp_mma(hopper, mma::M16N8K16, types, &[one; 4], &[one; 2], &[[0; 32]; 4], &mut d, Level::detect())?;
/// assert_eq!(d[0][0], 0x4180_0000); // 16
/// # Ok::<(), emulator::Error>(())
/// ```
#[allow(clippy::too_many_arguments)] // One per operand of the instruction.
pub fn warp_mma(
    profile: &Profile,
    shape: Shape,
    types: Types,
    a: &[Register],
    b: &[Register],
    c: &[Register],
    d: &mut [Register],
    level: Level,
) -> Result<(), Error> {
    let mma = WarpMma::new(profile, shape, types, level)?;
    mma.check_registers(a.len(), b.len(), c.len(), d.len())?;
    mma.run(&a.iter().collect::<Vec<_>>(), &b.iter().collect::<Vec<_>>(), &c.iter().collect::<Vec<_>>(), d);
    Ok(())
}

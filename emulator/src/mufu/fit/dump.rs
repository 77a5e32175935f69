//! Dumps: every output of a unit over one binade.

use super::correct::correctly_rounded;
use crate::Error;
use crate::mufu::Function;

/// Outputs for consecutive operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    function: Function,
    start: u32,
    outputs: Vec<u32>,
}

/// The number of operands of a binade.
pub const BINADE: usize = 1 << 23;

/// The dumps that have names: file stem, function, first operand.
pub(in crate::mufu) const NAMED: [(&str, Function, u32); 10] = [
    ("rcp-1-2", Function::Rcp, 0x3f80_0000),
    ("rsq-1-2", Function::Rsq, 0x3f80_0000),
    ("rsq-2-4", Function::Rsq, 0x4000_0000),
    ("ex2-1-2", Function::Ex2, 0x3f80_0000),
    ("ex2-neg1-neg2", Function::Ex2, 0xbf80_0000),
    ("lg2-1-2", Function::Lg2, 0x3f80_0000),
    ("sin-1-2", Function::Sin, 0x3f80_0000),
    ("sin-2-4", Function::Sin, 0x4000_0000),
    ("cos-1-2", Function::Cos, 0x3f80_0000),
    ("cos-2-4", Function::Cos, 0x4000_0000),
];

fn named(stem: &str) -> Result<(Function, u32), Error> {
    NAMED.iter().find(|(name, ..)| *name == stem).map(|&(_, function, start)| (function, start)).ok_or_else(|| {
        let known: Vec<&str> = NAMED.iter().map(|(name, ..)| *name).collect();
        Error::MufuDump { name: stem.to_owned(), problem: format!("unknown name; known are {}", known.join(", ")) }
    })
}

impl Dump {
    /// A dump of absolute results: `outputs[i]` is the unit's answer to the operand with bits `start + i`.
    ///
    /// # Errors
    /// [`Error::MufuDump`] if `start` is not the first operand of a normal binade or there is not one output for each of
    /// its 2^23 operands.
    pub fn new(function: Function, start: u32, outputs: Vec<u32>) -> Result<Self, Error> {
        let refuse = |problem| Err(Error::MufuDump { name: format!("{function} from {start:08x}"), problem });
        let field = start >> 23 & 0xff;
        if start & 0x007f_ffff != 0 || field == 0 || field == 255 {
            return refuse("its first operand must be a normal power of two".to_owned());
        }
        if outputs.len() != BINADE {
            return refuse(format!("it has {} outputs; a binade has {BINADE}", outputs.len()));
        }
        Ok(Self { function, start, outputs })
    }

    /// A dump in the form of a correction file: little-endian signed integers, 1 or 4 bytes each, that are to be added
    /// to the correctly rounded result. `stem` names the function and the binade, for example `rsq-2-4`. (The files are distributed compressed; decompressing is the caller's.)
    ///
    /// # Bits
    /// The correctly rounded results are computed on integers; see [`correctly_rounded`].
    ///
    /// # Errors
    /// [`Error::MufuDump`] for another name or a wrong length.
    pub fn from_corrections(stem: &str, bytes: &[u8]) -> Result<Self, Error> {
        let refuse = |problem| Error::MufuDump { name: stem.to_owned(), problem };
        let (function, start) = named(stem)?;
        let base = correctly_rounded(function, start)?;
        let outputs = if bytes.len() == BINADE {
            base.iter().zip(bytes).map(|(bits, &ulp)| bits.wrapping_add_signed(i32::from(ulp as i8))).collect()
        } else if bytes.len() == 4 * BINADE {
            let ulps = bytes.chunks_exact(4).map(|word| i32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            base.iter().zip(ulps).map(|(bits, ulp)| bits.wrapping_add_signed(ulp)).collect()
        } else {
            return Err(refuse(format!("it has {} bytes; expected {BINADE} or {}", bytes.len(), 4 * BINADE)));
        };
        Self::new(function, start, outputs)
    }

    /// A dump in the form in which a probe writes it: 2^23 results, 4 little-endian bytes each. `stem` as in
    /// [`Dump::from_corrections`].
    ///
    /// # Errors
    /// [`Error::MufuDump`] for another name or a wrong length.
    pub fn from_results(stem: &str, bytes: &[u8]) -> Result<Self, Error> {
        let (function, start) = named(stem)?;
        if bytes.len() != 4 * BINADE {
            let problem = format!("it has {} bytes; results of a binade have {}", bytes.len(), 4 * BINADE);
            return Err(Error::MufuDump { name: stem.to_owned(), problem });
        }
        let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        Self::new(function, start, words.collect())
    }

    /// The dump as [`Dump::from_results`] reads it.
    #[must_use]
    pub fn to_results(&self) -> Vec<u8> {
        self.outputs.iter().flat_map(|y| y.to_le_bytes()).collect()
    }

    /// The dump as a correction file: 1 byte an operand if all differences fit, otherwise 4.
    ///
    /// # Errors
    /// [`Error::MufuDump`] for a binade whose correctly rounded results are not computed here.
    pub fn to_corrections(&self) -> Result<Vec<u8>, Error> {
        let base = correctly_rounded(self.function, self.start)?;
        let ulps: Vec<i32> = self.outputs.iter().zip(&base).map(|(y, bits)| y.wrapping_sub(*bits) as i32).collect();
        Ok(if ulps.iter().all(|&ulp| i8::try_from(ulp).is_ok()) {
            ulps.iter().map(|&ulp| ulp as u8).collect()
        } else {
            ulps.iter().flat_map(|ulp| ulp.to_le_bytes()).collect()
        })
    }

    /// The name of its file, if the dump is one of those that have names.
    #[must_use]
    pub fn stem(&self) -> Option<&'static str> {
        NAMED
            .iter()
            .find(|&&(_, function, start)| (function, start) == (self.function, self.start))
            .map(|named| named.0)
    }

    /// The function dumped.
    #[must_use]
    pub fn function(&self) -> Function {
        self.function
    }

    /// Bits of the first operand.
    #[must_use]
    pub fn start(&self) -> u32 {
        self.start
    }

    /// The outputs, one for each of 2^23 operands.
    #[must_use]
    pub fn outputs(&self) -> &[u32] {
        &self.outputs
    }

    /// Operands and outputs.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        self.outputs.iter().enumerate().map(|(i, &y)| (self.start + i as u32, y))
    }
}

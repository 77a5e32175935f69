//! What can be structurally wrong with a module.

use std::fmt;

use crate::ast::{Cmp, MmaShape, Pos, Round, Space, Type};

/// A module that breaks a structural rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidateError {
    /// The kernel; empty for the header of the module.
    pub kernel: String,
    /// Index into the kernel's body; absent for its declarations.
    pub stmt: Option<usize>,
    /// Where the statement was parsed.
    pub pos: Pos,
    /// The rule broken.
    pub defect: Defect,
}

impl fmt::Display for ValidateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.kernel.is_empty() {
            write!(f, "kernel {}", self.kernel)?;
            if let Some(stmt) = self.stmt {
                write!(f, ", statement {stmt}")?;
            }
            if self.pos != Pos::NONE {
                write!(f, " (line {}, column {})", self.pos.line, self.pos.column)?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", self.defect)
    }
}

impl std::error::Error for ValidateError {}

/// Structural rules, each by the way it is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the fields are what the messages say they are
pub enum Defect {
    /// The header's PTX version is not one of the subset.
    #[error("PTX version {major}.{minor} is outside 7.0 ... 9.99")]
    Version { major: u32, minor: u32 },
    /// The header's target lacks the instructions of the subset.
    #[error("target sm_{target} is outside sm_70 ... sm_199")]
    Target { target: u32 },
    /// An instruction younger than the header.
    #[error("this `{opcode}` needs .version {major}.{minor} and .target sm_{target} or later")]
    Header { opcode: &'static str, major: u32, minor: u32, target: u32 },
    /// Not an identifier, too long, or the name of a special register.
    #[error("`{name}` cannot be a name")]
    Name { name: String },
    /// Two things of one name.
    #[error("the name `{name}` is declared twice")]
    DuplicateName { name: String },
    /// Registers cannot have this type.
    #[error("register {name} cannot be declared .{ty}")]
    RegisterDeclaration { name: String, ty: Type },
    /// Parameters cannot have this type.
    #[error("parameter {name} cannot be declared .{ty}")]
    ParamType { name: String, ty: Type },
    /// More parameters than a launch can pass.
    #[error("the parameters exceed {limit} bytes")]
    ParamSize { limit: u32 },
    /// A shared array that cannot be laid out.
    #[error("shared array {name}: alignment {align} is no power of two up to 128, or size {bytes} is zero")]
    SharedArray { name: String, align: u32, bytes: u32 },
    /// More static shared memory than a block has.
    #[error("the shared arrays exceed {limit} bytes")]
    SharedSize { limit: u32 },
    /// A block no GPU runs.
    #[error(".maxntid {x}, {y}, {z} is not between 1 and 1024 threads")]
    BlockSize { x: u32, y: u32, z: u32 },
    /// Labels are placed once each, in the order of the kernel's table.
    #[error("label {index} is missing, placed twice, or not in the order of the label table")]
    LabelOrder { index: u32 },
    /// An index beyond a table of the kernel.
    #[error("there is no {what} {index} in this kernel")]
    NoSuch { what: &'static str, index: u32 },
    /// A register of a type this operand cannot have.
    #[error("operand {operand}: register {register} is .{declared}, but .{needs} is needed")]
    RegisterType { operand: &'static str, register: String, declared: Type, needs: Type },
    /// An operand of a kind this place cannot have.
    #[error("operand {operand}: {what} cannot stand where a .{needs} is read")]
    OperandKind { operand: &'static str, what: &'static str, needs: Type },
    /// An immediate of more bits than its type.
    #[error("operand {operand}: {value} does not fit .{ty}")]
    ImmediateRange { operand: &'static str, value: i64, ty: Type },
    /// The instruction does not exist for this type.
    #[error("`{opcode}` has no .{ty} form; it takes {allowed}")]
    InstructionType { opcode: &'static str, ty: Type, allowed: &'static str },
    /// The instruction does not exist with this rounding, or without one.
    #[error("`{opcode}`: {} rounding; needed: {allowed}", round.map_or("no", Round::name))]
    Rounding { opcode: &'static str, round: Option<Round>, allowed: &'static str },
    /// The instruction does not exist with this modifier.
    #[error("`{opcode}` cannot have {modifier} here")]
    Modifier { opcode: &'static str, modifier: &'static str },
    /// Operands that this form has too few or too many of.
    #[error("`{opcode}` has another number of operands")]
    Operands { opcode: &'static str },
    /// No conversion between these types in the subset.
    #[error("there is no cvt.{to}.{from} in the subset")]
    Conversion { to: Type, from: Type },
    /// This comparison needs another type.
    #[error("setp.{cmp} does not compare .{ty}")]
    Comparison { cmp: Cmp, ty: Type },
    /// A vector of a size that no instruction moves.
    #[error("`{opcode}` cannot move {count} elements of .{ty} at once")]
    VectorWidth { opcode: &'static str, count: usize, ty: Type },
    /// One register receives two results of one instruction.
    #[error("register {register} is written twice by one instruction")]
    WrittenTwice { register: String },
    /// Parameters are loaded through parameters, shared memory not through them, and so on.
    #[error("this address cannot be in the .{space} space")]
    AddressSpace { space: Space },
    /// The instruction does not reach this state space.
    #[error("`{opcode}` cannot access .{space}")]
    Space { opcode: &'static str, space: Space },
    /// An address register of the wrong width.
    #[error("address register {register} is .{declared}; .{space} addresses have {needs}")]
    AddressRegister { register: String, declared: Type, space: Space, needs: &'static str },
    /// Offsets have 32 bits.
    #[error("address offset {offset} does not fit 32 bits")]
    OffsetRange { offset: i64 },
    /// A constant address outside the variable it names.
    #[error("bytes {offset} ... {} are outside {name} of {size} bytes", offset + i64::from(*bytes))]
    OutsideVariable { name: String, offset: i64, bytes: u32, size: u32 },
    /// A constant address that the access cannot have.
    #[error("offset {offset} in {name} is not aligned to the {bytes} bytes accessed")]
    Misaligned { name: String, offset: i64, bytes: u32 },
    /// No such matrix instruction in the subset.
    #[error("there is no mma.{shape}.{d}.{a}.{b}.{c} in the subset")]
    MmaForm { shape: MmaShape, d: Type, a: Type, b: Type, c: Type },
    /// A fragment of the wrong number of registers.
    #[error("fragment {fragment} has {got} registers; mma.{shape} needs {needs}")]
    Fragment { fragment: &'static str, shape: MmaShape, got: usize, needs: usize },
    /// Asynchronous copies move 4, 8 or 16 bytes, past the first-level cache only 16.
    #[error("cp.async cannot copy {bytes} bytes{}", if *cg { " with .cg" } else { "" })]
    CopySize { bytes: u32, cg: bool },
    /// There are 16 barriers.
    #[error("there is no barrier {id}: they are 0 ... 15")]
    Barrier { id: u32 },
    /// `cas` takes two values, every other atomic one.
    #[error("atom.cas takes two values, other atomics one")]
    AtomOperands,
}

impl Defect {
    /// The opcode of an instruction that the header is too old for.
    pub(crate) fn opcode(&self) -> Option<&'static str> {
        match self {
            Defect::Header { opcode, .. } => opcode.split('.').next(),
            _ => None,
        }
    }
}

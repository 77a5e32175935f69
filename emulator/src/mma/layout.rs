//! Fragment layouts: which lane, register and half hold which matrix element (PTX ISA 9.7.14, `.row.col`).
//!
//! A *fragment* is one operand spread over the 32 lanes of a warp: `registers x 32` words of 32 bits. 16-bit elements sit two to a
//! register, 8-bit elements four and 4-bit integers eight, the lower-numbered ones in the low bits. Layouts are functions of (register, lane, part), never tables.

use super::instruction::{Instruction, M8N8K4, Shape, Types};
use crate::Error;
use crate::format::Elem;

/// Lanes of a warp.
pub const LANES: usize = 32;

/// One 32-bit register over the lanes of a warp.
pub type Register = [u32; LANES];

/// A place in one of the matrices that a warp works on (`mma.m8n8k4` multiplies four at once, everything else one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which of the independent products.
    pub matrix: usize,
    /// Row of A, C, D; k of B.
    pub row: usize,
    /// k of A; column of B, C, D.
    pub column: usize,
}

/// The layout of one warp-level instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Shape of each product.
    pub shape: Shape,
    /// Element types.
    pub types: Types,
    /// Independent products (4 for m8n8k4, else 1).
    pub matrices: usize,
}

/// Elements of this type in a 32-bit register; `None` for types without a 32-bit layout here.
const fn parts(elem: Elem) -> Option<usize> {
    match elem {
        Elem::F16 | Elem::Bf16 => Some(2),
        Elem::F32 | Elem::Tf32 | Elem::S32 => Some(1),
        Elem::E4m3 | Elem::E5m2 | Elem::S8 | Elem::U8 => Some(4),
        Elem::S4 | Elem::U4 => Some(8),
        _ => None,
    }
}

impl Layout {
    /// The layout of `instruction`.
    ///
    /// # Errors
    /// [`Error::UnsupportedLayout`] unless it is `mma.sync` m16n8kK of 4 to 32 bits an element, without block scales, or m8n8k4.
    pub fn of(instruction: &Instruction) -> Result<Self, Error> {
        let Instruction { family, shape, types, modifier } = *instruction;
        let known = [types.a, types.b, types.c, types.d].into_iter().all(|e| parts(e).is_some())
            && types.a.format().width == types.b.format().width;
        // Four lanes share a run of K, in one or two registers.
        let run = 4 * parts(types.a).unwrap_or(4);
        let warp = (shape.m, shape.n) == (16, 8) && [run, 2 * run].contains(&(shape.k as usize));
        let quad = shape == M8N8K4 && types.a == Elem::F16;
        if family == super::Family::Mma && modifier == super::Modifier::None && known && (warp || quad) {
            Ok(Self { shape, types, matrices: if quad { 4 } else { 1 } })
        } else {
            Err(Error::UnsupportedLayout { instruction: instruction.to_string() })
        }
    }

    /// Elements of A, B, C or D that one register of one lane holds.
    #[must_use]
    pub fn parts(&self, elem: Elem) -> usize {
        parts(elem).expect("`of` admits only types with a layout")
    }

    fn registers(&self, elements: u32, elem: Elem) -> usize {
        elements as usize * self.matrices / LANES / self.parts(elem)
    }

    /// Registers of A.
    #[must_use]
    pub fn a_registers(&self) -> usize {
        self.registers(self.shape.m * self.shape.k, self.types.a)
    }

    /// Registers of B.
    #[must_use]
    pub fn b_registers(&self) -> usize {
        self.registers(self.shape.n * self.shape.k, self.types.b)
    }

    /// Registers of C or D, given its element type.
    #[must_use]
    pub fn cd_registers(&self, elem: Elem) -> usize {
        self.registers(self.shape.m * self.shape.n, elem)
    }

    fn quad(&self) -> bool {
        self.shape == M8N8K4
    }

    /// The element of A in `part` of `register` of `lane`.
    #[must_use]
    pub fn a(&self, register: usize, lane: usize, part: usize) -> Place {
        let parts = self.parts(self.types.a);
        if self.quad() {
            return Place { matrix: lane % 16 / 4, row: lane % 4 + lane / 16 * 4, column: register * 2 + part };
        }
        let (group, thread) = (lane / 4, lane % 4);
        Place { matrix: 0, row: group + register % 2 * 8, column: (register / 2 * 4 + thread) * parts + part }
    }

    /// The element of B in `part` of `register` of `lane`.
    #[must_use]
    pub fn b(&self, register: usize, lane: usize, part: usize) -> Place {
        let parts = self.parts(self.types.b);
        if self.quad() {
            return Place { matrix: lane % 16 / 4, row: register * 2 + part, column: lane % 4 + lane / 16 * 4 };
        }
        Place { matrix: 0, row: (register * 4 + lane % 4) * parts + part, column: lane / 4 }
    }

    /// The element of C or D, of type `elem`, in `part` of `register` of `lane`.
    #[must_use]
    pub fn cd(&self, elem: Elem, register: usize, lane: usize, part: usize) -> Place {
        let parts = self.parts(elem);
        let i = register * parts + part;
        if self.quad() {
            let (row, column) =
                if parts == 2 { (lane % 4, i) } else { ((lane & 1) + (i & 2), (i & 4) + (lane & 2) + (i & 1)) };
            return Place { matrix: lane % 16 / 4, row: row + lane / 16 * 4, column };
        }
        Place { matrix: 0, row: lane / 4 + i / 2 * 8, column: lane % 4 * 2 + i % 2 }
    }
}

/// Part `part` of a register word, for `parts` elements a word.
#[must_use]
pub fn element(word: u32, parts: usize, part: usize) -> u32 {
    if parts == 1 { word } else { word >> (32 / parts * part) & ((1 << (32 / parts)) - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mma::{M16N8K4, M16N8K8, M16N8K16};

    fn layouts() -> Vec<Layout> {
        [
            (M16N8K16, Types::new(Elem::Bf16, Elem::F32)),
            (M16N8K16, Types::new(Elem::F16, Elem::F16)),
            (M16N8K8, Types::new(Elem::F16, Elem::F32)),
            (M16N8K8, Types::new(Elem::Tf32, Elem::F32)),
            (M16N8K4, Types::new(Elem::Tf32, Elem::F32)),
            (M8N8K4, Types::new(Elem::F16, Elem::F32)),
            (M8N8K4, Types { c: Elem::F16, ..Types::new(Elem::F16, Elem::F32) }),
        ]
        .into_iter()
        .map(|(shape, types)| Layout::of(&Instruction::mma(shape, types)).unwrap())
        .collect()
    }

    /// Each element of each matrix sits in exactly one place.
    fn is_bijection(places: impl Iterator<Item = Place>, matrices: usize, rows: u32, columns: u32) {
        let (rows, columns) = (rows as usize, columns as usize);
        let mut seen = vec![false; matrices * rows * columns];
        for p in places {
            assert!(p.row < rows && p.column < columns);
            assert!(!std::mem::replace(&mut seen[(p.matrix * rows + p.row) * columns + p.column], true), "{p:?} twice");
        }
        assert!(seen.into_iter().all(|s| s));
    }

    #[test]
    fn every_element_has_one_place() {
        let all = |registers: usize, parts: usize| {
            (0..registers).flat_map(move |r| (0..LANES).flat_map(move |l| (0..parts).map(move |p| (r, l, p))))
        };
        for layout in layouts() {
            let Shape { m, n, k } = layout.shape;
            let ab = layout.parts(layout.types.a);
            is_bijection(all(layout.a_registers(), ab).map(|(r, l, p)| layout.a(r, l, p)), layout.matrices, m, k);
            is_bijection(all(layout.b_registers(), ab).map(|(r, l, p)| layout.b(r, l, p)), layout.matrices, k, n);
            for elem in [layout.types.c, layout.types.d] {
                let cd = all(layout.cd_registers(elem), layout.parts(elem));
                is_bijection(cd.map(|(r, l, p)| layout.cd(elem, r, l, p)), layout.matrices, m, n);
            }
        }
    }

    /// Spot checks against the figures of the PTX ISA.
    #[test]
    fn figures_of_the_isa() {
        let place = |row, column| Place { matrix: 0, row, column };
        let [bf16, f16, k8, tf32, k4, quad, _] = layouts().try_into().unwrap();
        assert_eq!(bf16.a(1, 5, 1), place(9, 3));
        assert_eq!(bf16.a(2, 31, 0), place(7, 14));
        assert_eq!(bf16.b(1, 6, 1), place(13, 1));
        assert_eq!(bf16.cd(Elem::F32, 3, 4, 0), place(9, 1));
        assert_eq!(f16.cd(Elem::F16, 1, 4, 1), place(9, 1));
        assert_eq!(k8.a(1, 0, 1), place(8, 1));
        assert_eq!(tf32.a(3, 2, 0), place(8, 6));
        assert_eq!(tf32.b(1, 7, 0), place(7, 1));
        assert_eq!(k4.a(1, 7, 0), place(9, 3));
        assert_eq!(quad.a(1, 21, 0), Place { matrix: 1, row: 5, column: 2 });
        assert_eq!(quad.cd(Elem::F32, 7, 18, 0), Place { matrix: 0, row: 6, column: 7 });
    }

    #[test]
    fn shapes_without_a_layout_are_refused_by_name() {
        let k4 = Instruction::mma(M16N8K4, Types::new(Elem::Bf16, Elem::F32));
        let wgmma = Instruction {
            family: crate::mma::Family::Wgmma,
            ..Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32))
        };
        for instruction in [k4, wgmma] {
            let error = Layout::of(&instruction).unwrap_err().to_string();
            assert!(error.contains(&instruction.to_string()), "{error}");
        }
    }
}

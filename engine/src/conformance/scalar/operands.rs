//! Operand tuples: pairs of edges, neighbours that nearly cancel, numbers of like size, any bits.

use emulator::format::{F16, F32, F64, Format};
use ptx::ast::Type;

use crate::conformance::data::Rng;

/// `count` tuples, as a column of little-endian bytes for each operand.
pub(super) fn tuples(types: &[Type], count: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(0x7363_616c + types.len() as u64);
    let edges: Vec<Vec<u64>> = types.iter().map(|&ty| edges(ty)).collect();
    let mut columns = vec![Vec::new(); types.len()];
    for i in 0..count {
        let tuple = tuple(&mut rng, types, &edges, i);
        for ((column, value), ty) in columns.iter_mut().zip(tuple).zip(types) {
            column.extend_from_slice(&value.to_le_bytes()[..ty.bytes() as usize]);
        }
    }
    columns
}

fn tuple(rng: &mut Rng, types: &[Type], edges: &[Vec<u64>], i: usize) -> Vec<u64> {
    let pick = |rng: &mut Rng, e: &[u64]| e[rng.below(e.len() as u32) as usize];
    let pairs: usize = edges.iter().map(Vec::len).product();
    match (types.len(), i % 4) {
        // Every edge with every other, as far as there is room.
        (1 | 2, _) if i < pairs => {
            let first = edges[0].len();
            let mut tuple = vec![edges[0][i % first]];
            tuple.extend(edges.get(1).map(|e| e[i / first]));
            tuple
        }
        (_, 0) => edges.iter().map(|e| pick(rng, e)).collect(),
        (_, 1) => types.iter().map(|ty| near(rng, *ty)).collect(),
        // The second operand is the first with its sign turned and some last bits changed.
        (2.., 2) if types[0] == types[1] => {
            let first = near(rng, types[0]);
            let sign = 1 << (types[0].bits() - 1);
            let mut tuple = vec![first, first ^ sign ^ u64::from(rng.below(8))];
            tuple.extend(types[2..].iter().map(|ty| near(rng, *ty)));
            tuple
        }
        _ => types.iter().map(|ty| rng.next() >> (64 - ty.bits())).collect(),
    }
}

fn format(ty: Type) -> Option<&'static Format> {
    match ty {
        Type::F16 => Some(&F16),
        Type::F32 => Some(&F32),
        Type::F64 => Some(&F64),
        _ => None,
    }
}

/// A float between 2^-6 and 2^6 in size; an integer of any length.
fn near(rng: &mut Rng, ty: Type) -> u64 {
    let any = rng.next() >> (64 - ty.bits());
    match format(ty) {
        Some(f) => {
            let low = f.fraction_bits;
            let exponent = (f.bias - 6 + rng.below(13) as i32) as u64;
            any & (1 << (f.width - 1)) | exponent << low | any & ((1 << low) - 1)
        }
        None => any >> rng.below(ty.bits()),
    }
}

/// Zeros, subnormals, ones and their neighbours, the ends of integer ranges, the largest, infinities and NaNs of both signs.
fn edges(ty: Type) -> Vec<u64> {
    let Some(f) = format(ty) else {
        let all = u64::MAX >> (64 - ty.bits());
        let top = 1 << (ty.bits() - 1);
        return vec![0, 1, 2, 3, all, all - 1, top, top - 1, top + 1, all / 3, 0x0101 & all];
    };
    let one = |exponent: i32| ((exponent + f.bias) as u64) << f.fraction_bits;
    let infinity = ((1 << f.exponent_bits) - 1) << f.fraction_bits;
    let half_fraction = 1 << (f.fraction_bits - 1);
    let positive = [
        0,
        1,
        one(1 - f.bias) - 1,
        one(1 - f.bias),
        one(-1),
        one(0) - 1,
        one(0),
        one(0) + 1,
        one(0) | half_fraction,
        // The largest exponent with halves, and where integers of 15, 16, 31, 32, 63 and 64 bits end.
        one((f.fraction_bits as i32 - 1).min(f.bias)) | 1,
        one(15),
        one(16.min(f.bias)),
        one(31.min(f.bias)),
        one(32.min(f.bias)),
        one(63.min(f.bias)),
        one(64.min(f.bias)),
        infinity - 1,
        infinity,
        infinity | half_fraction,
        infinity | 1,
    ];
    let sign = 1 << (f.width - 1);
    positive.into_iter().flat_map(|v| [v, v | sign]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_a_value_for_each_tuple_and_meet_every_edge() {
        let columns = tuples(&[Type::F32, Type::F32], 1024);
        assert!(columns.iter().all(|c| c.len() == 4096));
        let has = |column: &[u8], bits: u32| column.chunks(4).any(|c| c == bits.to_le_bytes());
        for bits in [0, 0x8000_0000, 1, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x3f80_0001] {
            assert!(has(&columns[0], bits), "{bits:08x}");
        }
        for ty in [Type::F16, Type::F64, Type::S16, Type::U64, Type::F32] {
            assert_eq!(tuples(&[ty], 64)[0].len(), 64 * ty.bytes() as usize);
        }
        assert_eq!(tuples(&[Type::F64; 3], 64).len(), 3);
    }
}

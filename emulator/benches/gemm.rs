//! Throughput of packed matrix products on one core: the tensor core of a profile beside the batch-invariant f32 product.
//!
//! `cargo bench -p lastbit-emulator --bench gemm [-- PATTERN]`. Medians of interleaved rounds of the thread's processor time, so that a busy machine
//! slows every row alike. Rows of data that leave the fast path (`wide`, `tiny`, `special`, `mixed`) say what the careful path costs.

use emulator::format::Elem::{self, Bf16, E4m3, F16, F32, Tf32};
use emulator::gemm::{Chain, ChainRows, Gemm, Rows, Weights};
use emulator::mma::{Family, Instruction, Shape, Types};
use emulator::profile::Profile;
use emulator::simd::Level;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 5;
/// Nanoseconds of a round, at least: the system updates a thread's time only every few milliseconds.
const ROUND: f64 = 1.2e8;

/// Nanoseconds that this thread has run, where the system tells; else of the clock.
fn now(zero: Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.as_deref().and_then(|s| s.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.unwrap_or_else(|| zero.elapsed().as_nanos() as f64)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// About normal.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| (self.next() >> 40) as f32 / (1 << 24) as f32).sum::<f32>() - 6.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Data {
    Normal,
    /// Products beyond 2^25.
    Wide,
    /// Products around 2^-130.
    Tiny,
    /// A NaN in every row and block.
    Special,
    /// Every bit pattern.
    Bits,
    /// Rows of zeros between rows of small numbers.
    ZeroRows,
    /// One large element in each row.
    Outlier,
}

fn elements(elem: Elem, count: usize, k: usize, scale: f32, data: Data, random: &mut Random) -> Vec<u32> {
    (0..count)
        .map(|i| {
            let mut x = random.normal() * scale;
            match data {
                Data::Wide => x *= 2_f32.powi_exact(60),
                Data::Tiny => x *= 2_f32.powi_exact(-63),
                Data::ZeroRows if (i / k).is_multiple_of(2) => x = 0.0,
                Data::ZeroRows => x *= 2_f32.powi_exact(-50),
                Data::Outlier if i % k == i / k % k => x = 2_f32.powi_exact(60),
                _ => {}
            }
            if data == Data::Special && i % 8 == 3 {
                x = f32::NAN;
            }
            let bits = if data == Data::Bits { random.next() as u32 } else { x.to_bits() };
            match elem {
                Bf16 => bits >> 16,
                F16 => emulator::format::narrow_f32(
                    bits,
                    F16.format(),
                    emulator::round::Rounding::NearestEven,
                    emulator::round::Overflow::ByRounding,
                ) as u32,
                E4m3 => emulator::format::narrow_f32(
                    bits,
                    E4m3.format(),
                    emulator::round::Rounding::NearestEven,
                    emulator::round::Overflow::Saturate,
                ) as u32,
                _ => bits,
            }
        })
        .collect()
}

trait PowiExact {
    fn powi_exact(self, n: i32) -> f32;
}

impl PowiExact for f32 {
    /// 2^n.
    fn powi_exact(self, n: i32) -> f32 {
        f32::from_bits(((127 + n) as u32) << 23)
    }
}

enum Work {
    Exact(Gemm, Rows, Weights),
    F32(Chain, ChainRows, Weights),
}

struct Case {
    name: String,
    macs: f64,
    work: Work,
    nanoseconds: Vec<f64>,
    careful: f64,
}

fn pack_rows(elem: Elem, m: usize, k: usize, data: &[u32]) -> Rows {
    match elem {
        Bf16 | F16 => Rows::pack(elem, m, k, &data.iter().map(|&x| x as u16).collect::<Vec<_>>()),
        Tf32 => Rows::pack(elem, m, k, data),
        _ => Rows::pack(elem, m, k, &data.iter().map(|&x| x as u8).collect::<Vec<_>>()),
    }
    .unwrap()
}

fn pack_weights(elem: Elem, n: usize, k: usize, data: &[u32]) -> Weights {
    match elem {
        Bf16 | F16 => Weights::pack(elem, n, k, &data.iter().map(|&x| x as u16).collect::<Vec<_>>()),
        Tf32 | F32 => Weights::pack(elem, n, k, data),
        _ => Weights::pack(elem, n, k, &data.iter().map(|&x| x as u8).collect::<Vec<_>>()),
    }
    .unwrap()
}

impl Case {
    fn exact(instruction: (&str, Family, u32), elem: Elem, shape: [usize; 3], level: Level, data: Data) -> Self {
        Self::of(instruction, Types::new(elem, F32), shape, level, data)
    }

    fn of(
        (profile, family, k_inst): (&str, Family, u32),
        types: Types,
        [m, n, k]: [usize; 3],
        level: Level,
        data: Data,
    ) -> Self {
        let (mut random, elem) = (Random(1), types.a);
        let shape = Shape { m: if family == Family::Mma { 16 } else { 64 }, n: 8, k: k_inst };
        let instruction = Instruction { family, ..Instruction::mma(shape, types) };
        let gemm = Gemm::new(Profile::by_name(profile).unwrap(), &instruction).unwrap().level(level);
        let x = pack_rows(elem, m, k, &elements(elem, m * k, k, 1.0, data, &mut random));
        let w = pack_weights(elem, n, k, &elements(elem, n * k, k, 0.05, data, &mut random));
        Self::new(
            format!("{profile} {elem:<5} {} {m}x{n}x{k} {:<8} {data:?}", types.d, level.name()),
            [m, n, k],
            Work::Exact(gemm, x, w),
        )
    }

    fn f32(elem: Elem, [m, n, k]: [usize; 3], level: Level) -> Self {
        let mut random = Random(1);
        let x = elements(F32, m * k, k, 1.0, Data::Normal, &mut random);
        let w = pack_weights(elem, n, k, &elements(elem, n * k, k, 0.05, Data::Normal, &mut random));
        let x = ChainRows::pack(F32, m, k, &x).unwrap();
        Self::new(
            format!("f32 chain {elem:<5} {m}x{n}x{k} {}", level.name()),
            [m, n, k],
            Work::F32(Chain::new().level(level), x, w),
        )
    }

    fn new(name: String, [m, n, k]: [usize; 3], work: Work) -> Self {
        Self { name, macs: (m * n * k) as f64, work, nanoseconds: Vec::new(), careful: 0.0 }
    }

    fn round(&mut self, zero: Instant) {
        let start = now(zero);
        for count in 1.. {
            match &self.work {
                Work::Exact(gemm, x, w) => {
                    let product = black_box(gemm.run(x, w, None).unwrap());
                    self.careful = product.careful as f64 / product.steps as f64;
                }
                Work::F32(chain, x, w) => drop(black_box(chain.run(x, w).unwrap())),
            }
            let spent = now(zero) - start;
            if spent >= ROUND {
                self.nanoseconds.push(spent / f64::from(count));
                break;
            }
        }
    }

    fn report(&mut self) {
        self.nanoseconds.sort_by(f64::total_cmp);
        let median = self.nanoseconds[self.nanoseconds.len() / 2];
        println!("{:<48} {:8.2} GMAC/s   careful {:.3}", self.name, self.macs / median, self.careful);
    }
}

fn main() {
    let pattern = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let best = Level::detect();
    let hopper = ("sm_90", Family::Mma, 16);
    let mut cases: Vec<Box<dyn Fn() -> Case>> = Vec::new();
    for shape in [[512, 512, 512], [32, 4096, 4096], [128, 128, 128]] {
        cases.push(Box::new(move || Case::f32(Bf16, shape, best)));
        cases.push(Box::new(move || Case::f32(F32, shape, best)));
        cases.push(Box::new(move || Case::exact(hopper, Bf16, shape, best, Data::Normal)));
        cases.push(Box::new(move || Case::exact(("sm_80", Family::Mma, 16), Bf16, shape, best, Data::Normal)));
    }
    for m in [1, 4, 12] {
        cases.push(Box::new(move || Case::f32(Bf16, [m, 8192, 8192], best)));
        cases.push(Box::new(move || Case::exact(hopper, Bf16, [m, 8192, 8192], best, Data::Normal)));
    }
    cases.push(Box::new(move || Case::exact(hopper, F16, [512; 3], best, Data::Normal)));
    cases.push(Box::new(move || Case::of(hopper, Types::new(F16, F16), [512; 3], best, Data::Normal)));
    let through_f16 = ("sm_90", Family::Mma, 32);
    cases.push(Box::new(move || Case::exact(through_f16, E4m3, [512; 3], best, Data::Normal)));
    cases.push(Box::new(move || Case::of(through_f16, Types::new(E4m3, F16), [512; 3], best, Data::Normal)));
    cases.push(Box::new(move || Case::exact(("sm_90", Family::Mma, 8), Tf32, [512; 3], best, Data::Normal)));
    cases.push(Box::new(move || Case::exact(("sm_90", Family::Wgmma, 32), E4m3, [512; 3], best, Data::Normal)));
    cases.push(Box::new(move || Case::exact(("sm_120", Family::Mma, 32), E4m3, [512; 3], best, Data::Normal)));
    cases.push(Box::new(move || Case::exact(("sm_89", Family::Mma, 32), E4m3, [512; 3], best, Data::Normal)));
    for level in Level::available() {
        let shape = if level == Level::Portable { [64, 512, 512] } else { [512; 3] };
        cases.push(Box::new(move || Case::f32(Bf16, shape, level)));
        cases.push(Box::new(move || Case::exact(("sm_80", Family::Mma, 16), Bf16, shape, level, Data::Normal)));
        for data in [Data::Normal, Data::Wide, Data::Tiny, Data::Special, Data::Bits, Data::ZeroRows, Data::Outlier] {
            cases.push(Box::new(move || Case::exact(hopper, Bf16, shape, level, data)));
        }
    }
    let mut cases: Vec<Case> = cases.iter().map(|case| case()).filter(|case| case.name.contains(&pattern)).collect();
    let zero = Instant::now();
    for _ in 0..ROUNDS {
        cases.iter_mut().for_each(|case| case.round(zero));
    }
    cases.iter_mut().for_each(Case::report);
}

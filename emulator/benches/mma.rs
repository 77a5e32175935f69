//! Throughput of warp-level matrix instructions, in GMAC/s on one core, at every level of this machine.
//!
//! `cargo bench -p lastbit-emulator --bench mma`. Medians of interleaved rounds, so that a busy machine slows every row alike.
//! Operands are of ordinary size (`normal`), as in a chain of a GEMM: D of one instruction is C of the next; `zeros`: 15 of 16 rows of A
//! are zero, as in a decode step; `sparse`: three of four elements are zero; `wide`: operands beyond the limit of the fast path;
//! `special`: a NaN in every row; `reference`: the integer reference.

use emulator::format::Elem::{self, Bf16, F16, F32, Tf32};
use emulator::mma::layout::Register;
use emulator::mma::{M16N8K8, M16N8K16, Shape, Types, WarpMma};
use emulator::profile::Profile;
use emulator::simd::Level;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 15;
const CHAIN: usize = 256;

struct Case {
    name: String,
    mma: WarpMma,
    a: Vec<Register>,
    b: Vec<Register>,
    reference: bool,
    nanoseconds: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Data {
    Normal,
    Zeros,
    Sparse,
    Wide,
    Special,
}

fn fragment(registers: usize, elem: Elem, wide: bool, state: &mut u32) -> Vec<Register> {
    let mut word = || {
        *state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        let r = *state ^ *state >> 15;
        match elem {
            Tf32 if wide => r & 0x83ff_e000 | 0x5000_0000,
            Tf32 => r & 0x81ff_e000 | 0x3e00_0000,
            F16 => r & 0x8fff_8fff | 0x3000_3000,
            _ if wide => r & 0x83ff_83ff | 0x5000_5000,
            _ => r & 0x81ff_81ff | 0x3e00_3e00,
        }
    };
    (0..registers).map(|_| std::array::from_fn(|_| word())).collect()
}

impl Case {
    fn new(profile: &str, shape: Shape, ab: Elem, level: Level, data: Data, reference: bool) -> Self {
        let mma = WarpMma::new(Profile::by_name(profile).expect("a profile"), shape, Types::new(ab, F32), level)
            .expect("an instruction of the profile");
        let mut state = 1;
        let wide = matches!(data, Data::Wide);
        let mut a = fragment(mma.layout().a_registers(), ab, wide, &mut state);
        let mut b = fragment(mma.layout().b_registers(), ab, wide, &mut state);
        let mut note = if reference { " reference" } else { "" };
        match data {
            Data::Normal => {}
            Data::Wide => note = " wide",
            Data::Sparse => {
                note = " sparse";
                for (i, word) in a.iter_mut().chain(&mut b).flatten().enumerate() {
                    *word &= [0, 0xffff, 0, 0xffff_0000][i * 7 % 11 % 4];
                }
            }
            Data::Special => {
                note = " special";
                a[0].fill(0x7fc0_7fc0);
                a[1].fill(0x7fc0_7fc0);
            }
            Data::Zeros => {
                note = " zeros";
                for register in &mut a {
                    register[4..].fill(0);
                }
                a[1].fill(0);
            }
        }
        let level = if reference { "" } else { level.name() };
        Self { name: format!("{profile} {shape} {ab:<5}{note} {level}"), mma, a, b, reference, nanoseconds: Vec::new() }
    }

    fn round(&mut self) {
        let chain = if self.reference { 2 } else { CHAIN };
        let a: Vec<&Register> = self.a.iter().collect();
        let b: Vec<&Register> = self.b.iter().collect();
        let mut c = [[0; 32]; 4];
        let mut d = [[0; 32]; 4];
        let start = Instant::now();
        for _ in 0..chain {
            let (a, b) = (black_box(&a), black_box(&b));
            let c_refs = c.each_ref();
            if self.reference {
                self.mma.run_reference(a, b, &c_refs, &mut d);
            } else {
                self.mma.run(a, b, &c_refs, &mut d);
            }
            c = d;
        }
        black_box(&c);
        self.nanoseconds.push(start.elapsed().as_nanos() as f64 / chain as f64);
    }

    fn report(&mut self) {
        self.nanoseconds.sort_by(f64::total_cmp);
        let median = self.nanoseconds[self.nanoseconds.len() / 2];
        let Shape { m, n, k } = self.mma.layout().shape;
        println!("{:<42} {median:9.1} ns {:8.3} GMAC/s", self.name, f64::from(m * n * k) / median);
    }
}

fn main() {
    let mut cases = Vec::new();
    for level in Level::available() {
        for (profile, shape, ab) in [
            ("sm_90", M16N8K16, Bf16),
            ("sm_80", M16N8K16, Bf16),
            ("sm_90", M16N8K16, F16),
            ("sm_80", M16N8K16, F16),
            ("sm_80", M16N8K8, Bf16),
            ("sm_90", M16N8K8, Tf32),
            ("sm_80", M16N8K8, Tf32),
        ] {
            cases.push(Case::new(profile, shape, ab, level, Data::Normal, false));
        }
        for data in [Data::Zeros, Data::Sparse, Data::Wide, Data::Special] {
            cases.push(Case::new("sm_90", M16N8K16, Bf16, level, data, false));
        }
    }
    cases.push(Case::new("sm_90", M16N8K16, Bf16, Level::Portable, Data::Normal, true));
    for _ in 0..ROUNDS {
        cases.iter_mut().for_each(Case::round);
    }
    cases.iter_mut().for_each(Case::report);
}

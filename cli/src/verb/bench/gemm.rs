//! `lastbit bench gemm`: matrix products by themselves.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use anyhow::{Context as _, bail};
use comfy_table::{Cell, CellAlignment};
use emulator::format::{Elem, narrow_f32};
use emulator::gemm::{Chain, ChainRows, Element, Gemm, Rows, Weights};
use emulator::mma::{Family, Instruction, Shape, Types};
use emulator::profile::Profile;
use emulator::round::{Overflow, Rounding};
use emulator::simd::Level;
use serde::Serialize;

use crate::output::{Format, Outcome, progress, table};

/// Options of `bench gemm`.
#[derive(clap::Args)]
pub struct Args {
    /// The GPU whose tensor core is computed
    #[arg(long, default_value = "sm_90")]
    profile: String,

    /// Interleaved rounds, of which the median counts
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    profile: String,
    cores: usize,
    clock: &'static str,
    rows: Vec<Row>,
}

/// Multiply-adds a second, in billions, of one core.
#[derive(Serialize)]
struct Row {
    shape: String,
    format: &'static str,
    instruction: String,
    path: &'static str,
    exact_gmac_s: f64,
    f32_gmac_s: f64,
    f32_over_exact: f64,
}

/// Seconds of one measurement, at least: the system updates a thread's time only every few milliseconds.
const SECONDS: f64 = 0.1;
/// Weights that no cache holds, as 16-bit elements: 256 MiB.
const BEYOND_CACHE: [usize; 3] = [1, 16_384, 8_192];

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let profile = Profile::by_name(&args.profile).with_context(|| {
        let names: Vec<_> = Profile::all().iter().map(|p| p.name).collect();
        format!("no profile {}; there are {}", args.profile, names.join(", "))
    })?;
    let mut cases = cases(profile)?;
    let bar = progress(u64::from(args.rounds) * cases.len() as u64, "matrix products");
    let zero = Instant::now();
    for _ in 0..args.rounds {
        for case in &mut cases {
            case.round(zero)?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let report = Report {
        schema: "lastbit/bench-gemm/v1",
        profile: profile.name.to_owned(),
        cores: 1,
        clock: if thread_seconds().is_some() { "processor time of the thread" } else { "wall clock" },
        rows: cases.into_iter().map(Case::row).collect(),
    };
    args.format.print(&report, |out| print_text(out, &report))?;
    Ok(Outcome::AllMatch)
}

/// Every shape for the profile's main 16-bit type, every path and every type at one shape.
fn cases(profile: &Profile) -> anyhow::Result<Vec<Case>> {
    let types = [Elem::Bf16, Elem::F16, Elem::Tf32].map(|elem| Types::new(elem, Elem::F32));
    let of = |types| instructions(profile, types).next();
    let mut formats: Vec<Instruction> =
        types.into_iter().chain([Types::new(Elem::F16, Elem::F16)]).filter_map(of).collect();
    // FP8 by every family: what computes it differs.
    formats.extend(instructions(profile, Types::new(Elem::E4m3, Elem::F32)));
    let Some(&main) = formats.first() else { bail!("{} has no matrix product that is packed here", profile.name) };
    let cube = [512; 3];
    let mut out = Vec::new();
    for level in Level::available().collect::<Vec<_>>().into_iter().rev() {
        out.push(Case::new(profile, main, cube, level)?);
    }
    for shape in [[32, 4_096, 4_096], BEYOND_CACHE] {
        out.push(Case::new(profile, main, shape, Level::detect())?);
    }
    for &format in &formats[1..] {
        out.push(Case::new(profile, format, cube, Level::detect())?);
    }
    Ok(out)
}

/// The instructions of `profile` with these types that there is a packed product of: of each family and tile the one with the largest K.
fn instructions(profile: &Profile, types: Types) -> impl Iterator<Item = Instruction> {
    let families = [(Family::Mma, 16, 8), (Family::Wgmma, 64, 8), (Family::Tcgen05, 128, 8), (Family::Mma, 8, 8)];
    families.into_iter().filter_map(move |(family, m, n)| {
        let of = |k| Instruction { family, ..Instruction::mma(Shape { m, n, k }, types) };
        [32, 16, 8, 4].map(of).into_iter().find(|instruction| Gemm::new(profile, instruction).is_ok())
    })
}

/// One row: both products of the same weights.
struct Case {
    shape: [usize; 3],
    instruction: Instruction,
    level: Level,
    gemm: Gemm,
    rows: Rows,
    chain_rows: ChainRows,
    weights: Weights,
    /// Seconds of the exact and of the f32 product.
    seconds: [Vec<f64>; 2],
}

impl Case {
    fn new(profile: &Profile, instruction: Instruction, shape: [usize; 3], level: Level) -> anyhow::Result<Self> {
        let elem = instruction.types.a;
        let (rows, chain_rows, weights) = match elem.format().width {
            8 => operands(elem, shape, |bits| bits as u8)?,
            16 => operands(elem, shape, |bits| bits as u16)?,
            _ => operands(elem, shape, |bits| bits)?,
        };
        let gemm = Gemm::new(profile, &instruction)?.level(level);
        Ok(Self { shape, instruction, level, gemm, rows, chain_rows, weights, seconds: [Vec::new(), Vec::new()] })
    }

    fn round(&mut self, zero: Instant) -> anyhow::Result<()> {
        let chain = Chain::new().level(self.level);
        let (gemm, weights) = (&self.gemm, &self.weights);
        self.seconds[0].push(time(zero, || gemm.run(&self.rows, weights, None).map(drop))?);
        self.seconds[1].push(time(zero, || chain.run(&self.chain_rows, weights).map(drop))?);
        Ok(())
    }

    fn row(self) -> Row {
        let [m, n, k] = self.shape;
        let [exact, f32] = self.seconds.map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            (m * n * k) as f64 / seconds[seconds.len() / 2] / 1e9
        });
        Row {
            shape: format!("{m}x{n}x{k}"),
            format: self.instruction.types.a.name(),
            instruction: self.instruction.to_string(),
            path: self.level.name(),
            exact_gmac_s: exact,
            f32_gmac_s: f32,
            f32_over_exact: f32 / exact,
        }
    }
}

/// Seconds that one call takes.
fn time(zero: Instant, call: impl Fn() -> Result<(), emulator::Error>) -> anyhow::Result<f64> {
    let now = || thread_seconds().unwrap_or_else(|| zero.elapsed().as_secs_f64());
    let start = now();
    let mut count = 0;
    loop {
        black_box(call()?);
        count += 1;
        let seconds = now() - start;
        if seconds >= SECONDS {
            return Ok(seconds / f64::from(count));
        }
    }
}

/// Seconds that this thread has run on a processor, where the system tells (Linux): then other programs count little.
pub(super) fn thread_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(stat.split(' ').next()?.parse::<f64>().ok()? * 1e-9)
}

/// Both operands of a product, packed, in containers that `narrow` makes.
fn operands<T: Element>(
    elem: Elem,
    [m, n, k]: [usize; 3],
    narrow: impl Fn(u32) -> T,
) -> Result<(Rows, ChainRows, Weights), emulator::Error> {
    let mut state = 1;
    let mut take = |count: usize, scale: f32| -> Vec<T> {
        let mut next = || {
            let x = about_normal(&mut state) * scale;
            let bits = narrow_f32(x.to_bits(), elem.format(), Rounding::NearestEven, Overflow::Saturate);
            narrow(bits as u32)
        };
        (0..count).map(|_| next()).collect()
    };
    let x = take(m * k, 1.0);
    let w = take(n * k, 0.05);
    Ok((Rows::pack(elem, m, k, &x)?, ChainRows::pack(elem, m, k, &x)?, Weights::pack(elem, n, k, &w)?))
}

/// The next number of a sequence that is about normal.
fn about_normal(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    // Four bytes have mean 510 and standard deviation 148; the fifth fills the gaps between sums.
    let sum: u64 = (0..4).map(|i| *state >> (24 + 8 * i) & 0xff).sum();
    (sum as f32 - 510.0 + (*state >> 56) as f32 / 256.0) / 148.0
}

fn print_text(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let mut table = table(["M x N x K", "instruction", "path", "exact GMAC/s", "f32 GMAC/s", "f32 / exact"]);
    for row in &report.rows {
        let mut cells = vec![Cell::new(&row.shape), Cell::new(&row.instruction), Cell::new(row.path)];
        let figures = [format!("{:.2}", row.exact_gmac_s), format!("{:.2}", row.f32_gmac_s)];
        cells.extend(figures.map(|x| Cell::new(x).set_alignment(CellAlignment::Right)));
        cells.push(Cell::new(format!("{:.2}", row.f32_over_exact)).set_alignment(CellAlignment::Right));
        table.add_row(cells);
    }
    writeln!(out, "{}, one core, operands packed, {}", report.profile, report.clock)?;
    writeln!(out, "{table}")
}

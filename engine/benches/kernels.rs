//! Speed of the kernels on the emulated device, one core: GEMM in multiply-adds, RMSNorm and attention in elements and rows.
//!
//! `cargo bench -p lastbit-engine --bench kernels [-- PROFILE]` (default `sm_90`). Time is that of the thread on its processor where
//! the system tells (Linux), so that other programs count little; elsewhere it is the clock's.

use std::time::Instant;

use emulator::exec::{Arg, ExecOptions, LaunchStats, Memory, Program, launch};
use emulator::profile::Profile;
use engine::kernels::{
    AttentionSpec, GemmOut, GemmSpec, GemmTile, KernelText, KvType, PAGE, Q_TILE, RmsNormSpec, Units,
};
use half::bf16;

/// Each measurement goes on for at least this long, as the system updates a thread's time only now and then (some milliseconds).
const SECONDS: f64 = 0.3;

/// Seconds that this thread has run.
fn thread_seconds(since: Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.as_deref().and_then(|s| s.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| since.elapsed().as_secs_f64(), |ns| ns * 1e-9)
}

/// A device with one kernel's buffers.
struct Bench {
    profile: &'static Profile,
    memory: Memory,
    state: u64,
}

impl Bench {
    /// About normal numbers of this standard deviation, as bf16.
    fn bf16s(&mut self, count: u32, scale: f32) -> Arg {
        let mut uniform = || {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.state >> 40) as f32 / (1 << 24) as f32
        };
        let mut normal = || ((0..12).map(|_| uniform()).sum::<f32>() - 6.0) * scale;
        let bytes: Vec<u8> = (0..count).flat_map(|_| bf16::from_f32(normal()).to_le_bytes()).collect();
        self.upload(&bytes)
    }

    fn u32s(&mut self, values: &[u32]) -> Arg {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.upload(&bytes)
    }

    fn upload(&mut self, bytes: &[u8]) -> Arg {
        let address = self.memory.alloc(bytes.len() as u64).expect("memory for a benchmark");
        self.memory.upload(address, bytes).expect("the buffer is as long as its bytes");
        Arg::U64(address)
    }

    fn out(&mut self, bytes: u32) -> Arg {
        Arg::U64(self.memory.alloc(u64::from(bytes)).expect("memory for a benchmark"))
    }

    /// Seconds of one launch on one thread, and what it did.
    fn time(&self, text: &KernelText, grid: [u32; 3], args: &[Arg]) -> (f64, LaunchStats) {
        let module = ptx::parse(&text.ptx).expect("a kernel's text parses");
        let program = Program::compile(&module, &text.name, self.profile).expect("a kernel compiles");
        let once =
            || launch(&program, grid, text.block, args, &self.memory, &ExecOptions::default()).expect("a kernel runs");
        let stats = once();
        let zero = Instant::now();
        let start = thread_seconds(zero);
        for count in 1.. {
            once();
            let seconds = thread_seconds(zero) - start;
            if seconds >= SECONDS {
                return (seconds / f64::from(count), stats);
            }
        }
        unreachable!("the loop has no end")
    }
}

fn main() {
    // Cargo adds `--bench`.
    let name = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_else(|| "sm_90".into());
    let Some(profile) = Profile::by_name(&name) else {
        eprintln!("no profile {name}");
        std::process::exit(2);
    };
    println!("{name}, one core, vector instructions: {:?}", ExecOptions::default().simd);
    let bench = || Bench { profile, memory: Memory::new(), state: 1 };
    for (n_pad, k_pad) in [(512, 512), (1536, 576)] {
        for rows in [1, 16, 64, 256] {
            gemm(bench(), rows, n_pad, k_pad);
        }
    }
    for hidden in [192, 576, 4096] {
        for rows in [16, 64, 256] {
            rmsnorm(bench(), rows, hidden);
        }
    }
    for (rows, start) in [(1, 511), (64, 0), (64, 448)] {
        attention(bench(), rows, start);
    }
}

fn gemm(mut bench: Bench, rows: u32, n_pad: u32, k_pad: u32) {
    let spec = GemmSpec { n_pad, k_pad, tile: GemmTile::for_rows(rows), out: GemmOut::Bf16, units: Units::Special };
    let (x, w) = (bench.bf16s(rows * k_pad, 1.0), bench.bf16s(n_pad * k_pad, 0.05));
    let y = bench.out(rows * n_pad * 2);
    let (seconds, stats) = bench.time(&spec.build(), spec.grid(rows, 1), &[x, w, y, Arg::U32(rows)]);
    let macs = f64::from(rows) * f64::from(n_pad) * f64::from(k_pad);
    println!(
        "gemm     rows {rows:3}, {n_pad:4} x {k_pad:4} {:?}: {:6.2} GMAC/s, {:4.0} ns and {:.2} other instructions per mma",
        spec.tile,
        macs / seconds / 1e9,
        seconds * 1e9 / stats.mmas as f64,
        (stats.instructions - stats.mmas) as f64 / stats.mmas as f64,
    );
}

fn rmsnorm(mut bench: Bench, rows: u32, hidden: u32) {
    let spec = RmsNormSpec { hidden, hidden_pad: hidden, eps: 1e-5_f32.to_bits(), units: Units::Special };
    let (x, w) = (bench.bf16s(rows * hidden, 1.0), bench.bf16s(hidden, 1.0));
    let y = bench.out(rows * hidden * 2);
    let (seconds, _) = bench.time(&spec.build(), spec.grid(rows), &[x, w, y, Arg::U32(rows)]);
    println!("rmsnorm  rows {rows:3}, width {hidden:4}: {:6.1} M elements/s", f64::from(rows * hidden) / seconds / 1e6);
}

/// Six query heads on two key/value heads of 32, as in the embedded model.
fn attention(mut bench: Bench, rows: u32, start: u32) {
    let (q_heads, kv_heads, head_dim) = (6, 2, 32);
    let spec = AttentionSpec { q_heads, kv_heads, head_dim, head_pad: head_dim, partial: false, kv: KvType::Bf16 };
    let pages = (start + rows).div_ceil(PAGE);
    let q = bench.bf16s(rows * q_heads * head_dim, 1.0);
    let mut cache = || bench.bf16s(pages * kv_heads * PAGE * head_dim, 1.0);
    let (k_cache, v_cache) = (cache(), cache());
    let entry = |row| [0, row, Q_TILE.min(rows - row), start + row];
    let tiles: Vec<u32> = (0..rows).step_by(Q_TILE as usize).flat_map(entry).collect();
    let table: Vec<u32> = (0..pages).collect();
    let count = tiles.len() as u32 / 4;
    let (tiles, table) = (bench.u32s(&tiles), bench.u32s(&table));
    let out = bench.out(rows * q_heads * head_dim * 2);
    let args = [q, k_cache, v_cache, tiles, table, out, Arg::U32(rows), Arg::U32(count), Arg::U32(pages)];
    let (seconds, stats) = bench.time(&spec.build(), spec.grid(count, 1), &args);
    println!(
        "attention rows {rows:2} from position {start:3}: {:7.1} us, {:4.0} ns and {:.2} other instructions per mma",
        seconds * 1e6,
        seconds * 1e9 / stats.mmas as f64,
        (stats.instructions - stats.mmas) as f64 / stats.mmas as f64,
    );
}

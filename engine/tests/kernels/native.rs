//! Native code in a kernel's place: it is taken, it has the bits and the faults of interpretation, and it never computes with stale weights.

use emulator::format::Elem;
use emulator::mma::{Instruction, M16N8K16, Types};
use emulator::profile::Profile;
use emulator::simd::Level;
use engine::device::{Arg, Buffer, Device, EmulatedDevice};
use engine::kernels::{
    AddNormSpec, AddSpec, AllReduceSpec, AttentionCombineSpec, AttentionSpec, BiasSpec, EmbedSpec, GatherSpec, GemmOut,
    GemmSpec, GemmTile, HeadNormSpec, KernelSpec, KernelText, KvType, PAD, RmsNormSpec, RopeStoreSpec, SiluMulSpec,
    SplitKReduceSpec, Top2Spec, Units,
};

use crate::arith::Gpu;
use crate::data::Rng;
use crate::rig::{In, Out, U32, Words, on_device, u16s};

fn native(gpu: &Gpu) -> EmulatedDevice {
    EmulatedDevice::with_profile(gpu.profile.clone())
}

fn interpreted(gpu: &Gpu) -> EmulatedDevice {
    native(gpu).interpreted()
}

/// bf16 of one kind for each tile of a product, so that it leaves and enters the exact product's fast path.
fn adversarial(rng: &mut Rng, count: usize) -> Vec<u16> {
    let sign = |rng: &mut Rng| (rng.next() as u16) & 0x8000;
    match rng.below(9) {
        0 => rng.anything(count),
        1 => (0..count).map(|_| sign(rng)).collect(),
        2 => (0..count).map(|_| sign(rng) | rng.next() as u16 & 0x7f).collect(),
        3 => rng.spread(count, 120, 120),
        4 => (0..count).map(|_| sign(rng) | 0x7f00 | rng.next() as u16 & 0x7f).collect(),
        5 => rng.bf16s(count, 1e-18),
        6 => (0..count).map(|_| if rng.below(50) == 0 { 0x7f80 | sign(rng) } else { 0x3f80 }).collect(),
        7 => rng.activations(count),
        _ => rng.bf16s(count, 1.0),
    }
}

#[test]
fn products_are_native_on_every_profile_and_have_the_bits_of_interpretation() {
    let mut rng = Rng::new(11);
    let instruction = Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32));
    let gpus = Profile::all().iter().filter(|p| p.mma(&instruction).is_ok()).map(|p| Gpu::named(p.name));
    let gpus: Vec<Gpu> = gpus.collect();
    assert!(gpus.len() >= 6);
    for gpu in gpus {
        for case in 0..48 {
            let rows = [1, 2, 3, 5, 8, 12, 13, 17, 31, 64, 65, 90][case % 12];
            let (n_pad, k_pad) = (PAD * (1 + rng.below(9)), PAD * (1 + rng.below(20)));
            let out = [GemmOut::Bf16, GemmOut::F32, GemmOut::Partial, GemmOut::Stream][case / 12];
            let spec = GemmSpec { units: Units::Special, n_pad, k_pad, tile: GemmTile::ALL[case % 3], out };
            let x = adversarial(&mut rng, (rows * k_pad) as usize);
            let w = adversarial(&mut rng, (n_pad * k_pad) as usize);
            let divided = matches!(out, GemmOut::Partial | GemmOut::Stream);
            let splits = if divided { 1 + rng.below(k_pad / PAD + 2) } else { 1 };
            let bytes = spec.parts(splits) * rows * n_pad * if out == GemmOut::Bf16 { 2 } else { 4 };
            let mut args = vec![In(&x), In(&w), Out(bytes), U32(rows)];
            if divided {
                args.push(U32(splits));
            }
            let (text, grid) = (spec.build(), spec.grid(rows, splits));
            let (want, work) = on_device(interpreted(&gpu), &text, grid, &args).unwrap();
            assert_eq!(work.native, 0);
            for level in Level::available() {
                for threads in [1, 2] {
                    let device = native(&gpu).simd(level).threads(threads);
                    let (found, work) = on_device(device, &text, grid, &args).unwrap();
                    assert_eq!((work.launches, work.native, work.instructions), (1, 1, 0));
                    let what = format!("{} {rows} rows, {splits} slices, {threads} threads", gpu.profile.name);
                    let (found, want) = (u16s(&found[0]), u16s(&want[0]));
                    if let Some(at) = (0..want.len()).find(|&at| found[at] != want[at]) {
                        let line = at / if out == GemmOut::Bf16 { 1 } else { 2 } / n_pad as usize;
                        let (row, k) = (line % rows as usize, k_pad as usize);
                        let column = at / if out == GemmOut::Bf16 { 1 } else { 2 } % n_pad as usize;
                        panic!(
                            "{what}, {level:?}, {spec:?}: line {line}, column {column} is {:04x}, should be {:04x}, of {:04x?} and {:04x?}",
                            found[at],
                            want[at],
                            &x[row * k..][..k],
                            &w[column * k..][..k]
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_checker_interprets_everything() {
    let gpu = Gpu::named("sm_90");
    let spec = GemmSpec { units: Units::Special, n_pad: 16, k_pad: 16, tile: GemmTile::M8, out: GemmOut::F32 };
    let (x, w) = (vec![0_u16; 16], vec![0_u16; 256]);
    let args = [In(&x), In(&w), Out(64), U32(1)];
    let (_, work) = on_device(native(&gpu).checked(1), &spec.build(), spec.grid(1, 1), &args).unwrap();
    assert_eq!((work.launches, work.native), (1, 0));
    assert!(work.mmas > 0);
}

/// Native code belongs to a text, not to who claims to be it.
#[test]
fn any_other_text_is_interpreted() {
    let gpu = Gpu::named("sm_90");
    let spec = GemmSpec { units: Units::Special, n_pad: 16, k_pad: 32, tile: GemmTile::M8, out: GemmOut::F32 };
    let text = spec.build();
    let edit = |f: &dyn Fn(&mut KernelText)| {
        let mut text = text.clone();
        f(&mut text);
        text
    };
    let other = GemmSpec { k_pad: 16, ..spec.clone() };
    let texts = [
        (1, text.clone()),
        (0, edit(&|t| t.ptx.push('\n'))),
        (0, edit(&|t| t.spec = None)),
        (0, edit(&|t| t.spec = Some(KernelSpec::Gemm(other.clone())))),
        (0, edit(&|t| t.spec = Some(KernelSpec::Add(AddSpec { width: 16 })))),
        // One warp of the two that the text is for, hence half of the columns.
        (0, edit(&|t| t.block = [32, 1, 1])),
    ];
    let (x, w) = (Rng::new(1).bf16s(32, 1.0), Rng::new(2).bf16s(16 * 32, 1.0));
    let args = [In(&x), In(&w), Out(64), U32(1)];
    for (expected, text) in texts {
        let (want, _) = on_device(interpreted(&gpu), &text, spec.grid(1, 1), &args).unwrap();
        let (found, work) = on_device(native(&gpu), &text, spec.grid(1, 1), &args).unwrap();
        assert_eq!(work.native, expected, "{:?}", text.spec);
        assert!(found == want);
    }
}

/// A device with a product's operands: `x (2, 48)`, `w (32, 48)`, `y` f32 `(2, 32)`.
struct Product {
    device: EmulatedDevice,
    spec: GemmSpec,
    x: Buffer,
    w: Buffer,
    y: Buffer,
}

impl Product {
    const SPEC: GemmSpec =
        GemmSpec { units: Units::Special, n_pad: 32, k_pad: 48, tile: GemmTile::M8, out: GemmOut::F32 };

    fn new(mut device: EmulatedDevice) -> Self {
        let mut put = |values: Vec<u16>| {
            let buffer = device.alloc(2 * values.len() as u64).unwrap();
            device.upload(buffer.address, &values.bytes()).unwrap();
            buffer
        };
        let (x, w) = (put(Rng::new(5).bf16s(2 * 48, 1.0)), put(Rng::new(6).bf16s(32 * 48, 1.0)));
        let y = device.alloc(2 * 32 * 4).unwrap();
        Self { device, spec: Self::SPEC, x, w, y }
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.x.arg(), self.w.arg(), self.y.arg(), Arg::U32(2)]
    }

    /// What a launch leaves in `y`, or what it complains about.
    fn launch(&mut self, grid: [u32; 3], args: &[Arg]) -> Result<Vec<u8>, String> {
        let kernel = self.device.register(&self.spec.build()).unwrap();
        self.device.launch(kernel, grid, args).map_err(|e| e.to_string())?;
        let mut bytes = vec![0; self.y.bytes as usize];
        self.device.download(self.y.address, &mut bytes).unwrap();
        Ok(bytes)
    }

    fn product(&mut self) -> Vec<u8> {
        self.launch(self.spec.grid(2, 1), &self.args()).unwrap()
    }
}

/// Both devices, in the same state.
fn both() -> [Product; 2] {
    let gpu = Gpu::named("sm_90");
    [native(&gpu), interpreted(&gpu)].map(Product::new)
}

#[test]
fn what_is_wrong_with_a_launch_is_said_in_the_words_of_interpretation() {
    let grid = Product::SPEC.grid(2, 1);
    // What is done to the arguments, whether the launch runs all the same, and whether as native code.
    type Edit = fn(&mut Vec<Arg>);
    let cases: [(&str, [u32; 3], bool, bool, Edit); 13] = [
        ("nothing", grid, true, true, |_| {}),
        ("a row less", grid, true, true, |a| a[3] = Arg::U32(1)),
        ("a row too many", grid, false, false, |a| a[3] = Arg::U32(3)),
        ("no rows", grid, true, false, |a| a[3] = Arg::U32(0)),
        ("nearly 2^32 rows", grid, false, false, |a| a[3] = Arg::U32(u32::MAX)),
        ("x misaligned", grid, false, false, |a| a[0] = shifted(a[0], 8)),
        ("w beyond its end", grid, false, false, |a| a[1] = shifted(a[1], 16)),
        ("y beyond its end", grid, false, false, |a| a[2] = shifted(a[2], 16)),
        ("an address of nothing", grid, false, false, |a| a[0] = Arg::Ptr(u64::MAX - 15)),
        ("an argument missing", grid, false, false, |a| a.truncate(3)),
        ("an argument of another size", grid, false, false, |a| a[0] = Arg::U32(0)),
        // To the right of the last column.
        ("more blocks", [2, 1, 1], true, false, |_| {}),
        ("no blocks", [0, 1, 1], false, false, |_| {}),
    ];
    for (what, grid, runs, is_native, edit) in cases {
        let [native, interpreted] = both().map(|mut p| {
            let mut args = p.args();
            edit(&mut args);
            let result = p.launch(grid, &args);
            (result, p.device.work().native)
        });
        assert_eq!(native.0, interpreted.0, "{what}");
        assert_eq!(native.0.is_ok(), runs, "{what}: {:?}", native.0);
        assert_eq!(native.1, u64::from(is_native), "{what}");
    }
}

fn shifted(arg: Arg, bytes: u64) -> Arg {
    match arg {
        Arg::Ptr(address) => Arg::Ptr(address + bytes),
        Arg::U32(_) => panic!("not an address"),
    }
}

/// Outputs over inputs are interpreted: what they give is what the text gives.
#[test]
fn overlapping_buffers_are_interpreted() {
    for over in [0, 1] {
        let [native, interpreted] = both().map(|mut p| {
            let mut args = p.args();
            args[2] = shifted(args[over], 16);
            // `x` is too short for the whole of `y`; one row fits.
            args[3] = Arg::U32(1);
            p.launch(p.spec.grid(1, 1), &args).unwrap();
            let mut written = vec![0; 144];
            let from = [p.x, p.w][over];
            p.device.download(from.address, &mut written).unwrap();
            (written, p.device.work().native)
        });
        assert_eq!((native.1, interpreted.1), (0, 0));
        assert_eq!(native.0, interpreted.0);
        let [_, untouched] = both().map(|mut p| {
            let mut bytes = vec![0; 144];
            let from = [p.x, p.w][over];
            p.device.download(from.address, &mut bytes).unwrap();
            bytes
        });
        assert_ne!(native.0, untouched);
    }
}

/// Whoever writes to the weights, the next product is of what is there then.
#[test]
fn products_follow_their_weights() {
    let add = AddSpec { width: 48 };
    type Change<'a> = &'a dyn Fn(&mut Product);
    let changes: [(&str, Change); 5] = [
        ("an upload of one element", &|p| p.device.upload(p.w.address + 1000, &[0x80, 0x3f]).unwrap()),
        ("a kernel", &|p| {
            let kernel = p.device.register(&add.build()).unwrap();
            p.device.launch(kernel, add.grid(32), &[p.w.arg(), p.w.arg(), p.w.arg(), Arg::U32(32)]).unwrap();
        }),
        ("a kernel that is interpreted", &|p| {
            let mut text = add.build();
            text.spec = None;
            let kernel = p.device.register(&text).unwrap();
            p.device.launch(kernel, add.grid(32), &[p.w.arg(), p.w.arg(), p.w.arg(), Arg::U32(32)]).unwrap();
        }),
        ("a product", &|p| {
            let spec = GemmSpec { units: Units::Special, n_pad: 16, k_pad: 48, tile: GemmTile::M8, out: GemmOut::Bf16 };
            let kernel = p.device.register(&spec.build()).unwrap();
            let to = p.w.address + 96;
            p.device.launch(kernel, spec.grid(2, 1), &[p.x.arg(), p.x.arg(), Arg::Ptr(to), Arg::U32(2)]).unwrap_err();
            let from = p.device.alloc(16 * 48 * 2).unwrap();
            p.device.upload(from.address, &Rng::new(9).bf16s(16 * 48, 1.0).bytes()).unwrap();
            p.device.launch(kernel, spec.grid(2, 1), &[p.x.arg(), from.arg(), Arg::Ptr(to), Arg::U32(2)]).unwrap();
        }),
        ("another matrix", &|p| {
            p.device.free(p.w).unwrap();
            p.w = p.device.alloc(32 * 48 * 2).unwrap();
            p.device.upload(p.w.address, &Rng::new(8).bf16s(32 * 48, 1.0).bytes()).unwrap();
        }),
    ];
    for (what, change) in changes {
        let [native, interpreted] = both().map(|mut p| {
            let before = p.product();
            assert_eq!(p.product(), before);
            change(&mut p);
            let after = p.product();
            assert_ne!(after, before, "{what} changed nothing");
            // And back to the weights of the start.
            p.device.upload(p.w.address, &Rng::new(6).bf16s(32 * 48, 1.0).bytes()).unwrap();
            assert_eq!(p.product(), before, "{what}");
            after
        });
        assert_eq!(native, interpreted, "{what}");
    }
}

/// A kernel with operands: for each, its bytes or a number.
struct Job {
    text: KernelText,
    grid: [u32; 3],
    args: Vec<Operand>,
}

enum Operand {
    Bytes(Vec<u8>),
    Number(u32),
}

/// A launch of every kernel that works row by row, over three rows.
fn jobs() -> Vec<Job> {
    let mut rng = Rng::new(70);
    let rows = 3_u32;
    let mut bf16 = |count: u32| Operand::Bytes(rng.bf16s(count as usize, 1.0).bytes());
    let zeros = |bytes: u32| Operand::Bytes(vec![0; bytes as usize]);
    let words = |words: &[u32]| Operand::Bytes(words.to_vec().bytes());
    let one = || Operand::Number(3);
    let (eps, units) = (1e-5_f32.to_bits(), Units::Special);
    let (q_heads, kv_heads, head_dim, head_pad) = (2, 1, 16, 16);
    let mut jobs = Vec::new();
    let mut add = |text: KernelText, grid, args| jobs.push(Job { text, grid, args });
    let s = AddSpec { width: 48 };
    add(s.build(), s.grid(rows), vec![bf16(144), bf16(144), zeros(288), one()]);
    let s = BiasSpec { width: 48 };
    add(s.build(), s.grid(rows), vec![bf16(144), bf16(48), one()]);
    let s = AllReduceSpec { width: 48, ranks: 2 };
    add(s.build(), s.grid(rows), vec![bf16(288), zeros(288), one()]);
    for units in [Units::Special, Units::Ieee] {
        let s = SiluMulSpec { ffn_pad: 48, units };
        add(s.build(), s.grid(rows), vec![bf16(288), zeros(288), one()]);
        let s = RmsNormSpec { hidden: 40, hidden_pad: 48, eps, units };
        add(s.build(), s.grid(rows), vec![bf16(144), bf16(48), zeros(288), one()]);
    }
    let s = AddNormSpec(RmsNormSpec { hidden: 40, hidden_pad: 48, eps, units });
    add(s.build(), s.grid(rows), vec![bf16(144), bf16(144), zeros(288), bf16(48), zeros(288), one()]);
    let s = HeadNormSpec { q_heads, kv_heads, head_dim, head_pad, eps, units };
    add(s.build(), s.grid(rows), vec![bf16(192), bf16(16), bf16(16), one()]);
    let s = EmbedSpec { hidden_pad: 48 };
    add(s.build(), s.grid(rows), vec![words(&[4, 0, 4]), bf16(240), zeros(288), one()]);
    let s = GatherSpec { width: 48 };
    add(s.build(), s.grid(rows), vec![words(&[2, 1, 2]), bf16(144), zeros(288), one()]);
    for kv in KvType::ALL {
        let s = RopeStoreSpec { q_heads, kv_heads, head_dim, head_pad, kv };
        let cache = 2 * 16 * head_pad * kv.bytes();
        let mut args = vec![bf16(192), zeros(8 * 8 * 4), zeros(8 * 8 * 4), words(&[7, 0, 3]), words(&[31, 2, 16])];
        args.extend([zeros(cache), zeros(cache), zeros(192), one()]);
        add(s.build(), s.grid(rows), args);
    }
    let s = Top2Spec { vocab: 40, vocab_pad: 48 };
    add(s.build(), s.grid(rows), vec![bf16(288), zeros(60), one()]);
    let s = AttentionCombineSpec { q_heads, head_dim, head_pad };
    let parts = vec![bf16(2 * 2 * 96), bf16(2 * 2 * 6), bf16(2 * 2 * 6), zeros(192), one(), Operand::Number(2)];
    add(s.build(), s.grid(rows), parts);
    let s = SplitKReduceSpec { n_pad: 48, f32_out: false, stream: None };
    add(s.build(), s.grid(rows), vec![bf16(2 * 2 * 144), zeros(288), one(), Operand::Number(2)]);
    // Three units, two of them a block: two segments.
    let s = SplitKReduceSpec { n_pad: 48, f32_out: true, stream: Some(144) };
    add(s.build(), s.grid(rows), vec![bf16(2 * 2 * 144), zeros(576), one(), Operand::Number(2)]);
    jobs
}

/// What a launch leaves in all its buffers, or what it complains about; and whether it ran as native code.
fn left_by(
    job: &Job,
    mut device: EmulatedDevice,
    edit: impl Fn(&mut Vec<Arg>),
) -> (Result<Vec<Vec<u8>>, String>, bool) {
    let kernel = device.register(&job.text).unwrap();
    let (mut args, mut buffers) = (Vec::new(), Vec::new());
    for operand in &job.args {
        match operand {
            Operand::Number(n) => args.push(Arg::U32(*n)),
            Operand::Bytes(bytes) => {
                let buffer = device.alloc(bytes.len() as u64).unwrap();
                device.upload(buffer.address, bytes).unwrap();
                args.push(buffer.arg());
                buffers.push(buffer);
            }
        }
    }
    edit(&mut args);
    let result = device.launch(kernel, job.grid, &args).map_err(|e| e.to_string());
    let native = device.work().native == 1;
    let read = |buffer: &Buffer| {
        let mut bytes = vec![0; buffer.bytes as usize];
        device.download(buffer.address, &mut bytes).unwrap();
        bytes
    };
    // A launch that failed may have written some of its blocks.
    (result.map(|()| buffers.iter().map(read).collect()), native)
}

/// Whatever is wrong with a launch of a kernel that works row by row, it does and says what interpretation does and says.
#[test]
fn launches_of_every_kernel_are_those_of_interpretation_even_when_they_are_wrong() {
    let gpu = Gpu::named("sm_90");
    for job in jobs() {
        let both = |what: &str, edit: &dyn Fn(&mut Vec<Arg>)| {
            let (found, as_native) = left_by(&job, native(&gpu), edit);
            let (want, _) = left_by(&job, interpreted(&gpu), edit);
            assert_eq!(found, want, "{}, {what}", job.text.name);
            (found.is_ok(), as_native)
        };
        assert_eq!(both("as it is", &|_| {}), (true, true), "{}", job.text.name);
        assert_eq!(
            both("an argument missing", &|args| args.truncate(args.len() - 1)),
            (false, false),
            "{}",
            job.text.name
        );
        let count = job.args.len();
        for i in 0..count {
            if matches!(job.args[i], Operand::Number(_)) {
                both("none", &|args| args[i] = Arg::U32(0));
                both("very many", &|args| args[i] = Arg::U32(u32::MAX));
                both("one more", &|args| args[i] = Arg::U32(4));
                continue;
            }
            both("beyond its end", &|args| args[i] = shifted(args[i], 16));
            both("misaligned", &|args| args[i] = shifted(args[i], 2));
            both("nowhere", &|args| args[i] = Arg::Ptr(1 << 40));
            // (Blocks that read what others write: which comes first is not said, so the devices run on one thread.)
            for other in (0..count).filter(|&other| other != i && matches!(job.args[other], Operand::Bytes(_))) {
                both("another's buffer", &|args| args[i] = args[other]);
            }
        }
    }
}

/// Tiles that attention has packed are used again only where the cache holds what they were packed from.
#[test]
fn attention_follows_its_cache() {
    let gpu = Gpu::named("sm_90");
    for kv in KvType::ALL {
        let spec = AttentionSpec { q_heads: 2, kv_heads: 1, head_dim: 32, head_pad: 32, partial: false, kv };
        let [native, interpreted] = [native(&gpu), interpreted(&gpu)].map(|mut device| {
            let mut rng = Rng::new(71);
            let put = |device: &mut EmulatedDevice, bytes: &[u8]| {
                let buffer = device.alloc(bytes.len() as u64).unwrap();
                device.upload(buffer.address, bytes).unwrap();
                buffer
            };
            let q = put(&mut device, &rng.bf16s(2 * 32, 1.0).bytes());
            // Six pages, of numbers below two.
            let cache = |rng: &mut Rng| match kv {
                KvType::Bf16 => rng.bf16s(96 * 32, 1.0).bytes(),
                KvType::Fp8 => (0..96 * 32).map(|_| (rng.below(2) << 7 | rng.below(0x40)) as u8).collect::<Vec<u8>>(),
            };
            let (k, v) = (put(&mut device, &cache(&mut rng)), put(&mut device, &cache(&mut rng)));
            // One row at position 70: two full tiles and seven keys.
            let tiles = put(&mut device, &vec![0_u32, 0, 1, 70].bytes());
            let table = put(&mut device, &vec![4_u32, 1, 0, 3, 5].bytes());
            let out = device.alloc(2 * 32 * 2).unwrap();
            let kernel = device.register(&spec.build()).unwrap();
            let mut all = Vec::new();
            let mut run = |device: &mut EmulatedDevice| {
                let sizes = [Arg::U32(1), Arg::U32(1), Arg::U32(5)];
                let args = [&[q, k, v, tiles, table, out].map(Buffer::arg)[..], &sizes].concat();
                device.launch(kernel, spec.grid(1, 1), &args).unwrap();
                let mut bytes = vec![0; 128];
                device.download(out.address, &mut bytes).unwrap();
                all.push(bytes);
            };
            run(&mut device);
            run(&mut device);
            // A key of a full tile, a value of one, and pages that change places.
            for address in [k.address + 4 * 16 * 32 * u64::from(kv.bytes()), v.address + 64] {
                device.upload(address, &[0x3f; 8]).unwrap();
                run(&mut device);
            }
            device.upload(table.address, &vec![0_u32, 1, 4, 3, 5].bytes()).unwrap();
            run(&mut device);
            all
        });
        assert_eq!(native, interpreted, "{kv:?}");
        assert_eq!(native[0], native[1]);
        assert!(native[1..].windows(2).all(|pair| pair[0] != pair[1]), "{kv:?}: a change changed nothing");
    }
}
